"""Several algorithms on the same clients, the same availability and the same tuning effort."""

from __future__ import annotations

import csv
import io
import math
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedswe import registry
from fedswe.errors import FedsweError, require
from fedswe.experiment.experiment import Experiment, assemble, populate
from fedswe.grid.cell import Cell
from fedswe.grid.executor import Executor
from fedswe.grid.runner import Watch, executor, run_cells
from fedswe.grid.store import RunStore
from fedswe.results.files import cannot_write, write_whole
from fedswe.results.history import History

TAIL = 50  # rounds at the end over which scores are averaged, as in the paper
TUNING_SCORE = "train_loss"  # test data are not used for the choice of a rate
FIGURES = ("compare.png", "compare.svg", "compare_final.png", "compare_final.svg")
FILES = ("compare.csv", "compare_runs.csv", *FIGURES)  # beside runs/


@dataclass(frozen=True)
class ComparisonRow:
    """One row of the table: an algorithm, evaluated at one model, over seeds."""

    label: str
    model: str
    rate: float
    seeds: tuple[int, ...]
    histories: list[History]  # one per seed

    @property
    def scores(self) -> list[str]:
        """The names of the scores of the model."""
        prefix = f"{self.model}_"
        return [c.removeprefix(prefix) for c in self.histories[0].columns if c.startswith(prefix)]

    def by_seed(self, score: str) -> list[float]:
        """A score of each seed, averaged over the last rounds."""
        return [history.tail_mean(f"{self.model}_{score}", TAIL) for history in self.histories]

    def score(self, name: str) -> tuple[float, float]:
        """Mean and standard deviation over seeds; NaN is the deviation of one."""
        values = self.by_seed(name)
        return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


@dataclass(frozen=True)
class Comparison:
    rows: list[ComparisonRow]

    @property
    def scores(self) -> list[str]:
        """The scores that all models have: another column may also begin with the name of a model."""
        return [name for name in self.rows[0].scores if all(name in row.scores for row in self.rows)]

    @property
    def headline(self) -> str | None:
        """The score to read first: the test accuracy, or the first loss, or the first score that there is."""
        scores = self.scores
        losses = [name for name in scores if name.endswith("loss")]
        return next((name for name in ("test_accuracy", *losses, *scores) if name in scores), None)

    def best(self, model: str) -> str | None:
        """The label with the best headline score; None where nothing says whether more or less is better."""
        score = self.headline
        if score is None or not score.endswith(("accuracy", "loss")):
            return None
        means = {row.label: row.score(score)[0] for row in self.rows if row.model == model}
        finite = {label: mean for label, mean in means.items() if math.isfinite(mean)}
        pick = max if score.endswith("accuracy") else min
        return pick(finite, key=finite.__getitem__) if finite else None

    def to_csv(self) -> str:
        """A line per algorithm and model."""
        names = self.scores
        spread = [f"{name}_{part}" for name in names for part in ("mean", "std")]
        return _csv(
            ["algorithm", "model", "local_lr", "seeds", *spread],
            (
                [r.label, r.model, f"{r.rate:g}", len(r.seeds), *(f"{v:.6g}" for name in names for v in r.score(name))]
                for r in self.rows
            ),
        )

    def runs_csv(self) -> str:
        """A line per algorithm, model and seed."""
        names = self.scores
        return _csv(
            ["algorithm", "model", "local_lr", "seed", *names],
            (
                [row.label, row.model, f"{row.rate:g}", seed, *(f"{value:.6g}" for value in values)]
                for row in self.rows
                for seed, *values in zip(row.seeds, *map(row.by_seed, names), strict=True)
            ),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values; null stands for numbers that are not finite."""
        return {
            "headline": self.headline,
            "tail": TAIL,
            "rows": [
                {
                    "algorithm": row.label,
                    "model": row.model,
                    "local_lr": row.rate,
                    "scores": {
                        name: dict(zip(("mean", "std"), map(_finite, row.score(name)), strict=True))
                        for name in row.scores
                    },
                    "seeds": {
                        str(seed): dict(zip(row.scores, map(_finite, values), strict=True))
                        for seed, *values in zip(row.seeds, *map(row.by_seed, row.scores), strict=True)
                    },
                }
                for row in self.rows
            ],
        }


def _csv(header: Sequence[str], rows: Any) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def compare(
    algorithms: Mapping[str, Experiment],
    seeds: Sequence[int] = (3, 4, 6),
    rates: Sequence[float] = (),
    tuning_seed: int = 1,
    out: str | Path | None = None,
    jobs: int = 0,
    on: str = "local",
    watch: Watch | None = None,
) -> Comparison:
    """Run the experiment of every label with every seed.

    With `rates`, each experiment first runs once per local rate on `tuning_seed`, which is not reported; for each
    evaluated model the rate with the lowest final training loss is kept. Test data are not used for the choice.

    With `out`, all runs are kept there as run directories, with compare.csv and compare_runs.csv. The same call
    continues an interrupted comparison, and two calls at once share the work. `jobs` and `on` say how many workers run
    where, as the options of the command do; `watch` is called with the rounds run and the rounds to run.
    """
    plan = _Plan(dict(algorithms), tuple(seeds), tuple(rates), tuning_seed)
    plan.check()
    device = next(iter(algorithms.values())).device
    with ExitStack() as opened:
        workers = opened.enter_context(executor(on, jobs, device))
        if out is None:
            place = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="fedswe-")))
        else:
            place = _opened(Path(out))
        result = plan.run(RunStore(place), workers, watch)
    if out is not None:
        write_whole(place / "compare.csv", result.to_csv())
        write_whole(place / "compare_runs.csv", result.runs_csv())
    return result


def _opened(out: Path) -> Path:
    """A directory that is new, empty, or holds a comparison to be continued."""
    known = {*FILES, "runs", ".locks"}
    try:
        out.mkdir(parents=True, exist_ok=True)
        others = [
            p.name for p in out.iterdir() if p.name not in known and not p.name.startswith((".shared-", ".compare"))
        ]
    except OSError as error:
        raise cannot_write(out, error) from None
    require(not others, f"{out} holds other files ({', '.join(others[:1])}): choose another --out")
    return out


@dataclass(frozen=True)
class _Plan:
    algorithms: dict[str, Experiment]
    seeds: tuple[int, ...]
    rates: tuple[float, ...]
    tuning_seed: int

    def check(self) -> None:
        """Find every mistake before the first run: of each algorithm, and of the clients of each seed."""
        require(self.algorithms, "--algorithms is empty: name some of `fedswe list`, or all")
        require(self.seeds, "--seeds is empty: give at least one, e.g. --seeds 3,4,6")
        require(len(set(self.seeds)) == len(self.seeds), "--seeds names one seed twice")
        if self.rates and self.tuning_seed in self.seeds:
            raise FedsweError(
                f"seed {self.tuning_seed} is used for tuning: choose other --seeds or another --tuning-seed"
            )
        require(len(set(self.rates)) == len(self.rates), "--tune names one rate twice")
        names = [file_name(label) for label in self.algorithms]
        for label, name in zip(self.algorithms, names, strict=True):
            require(name and names.count(name) == 1, f"{label!r} gives no directory name of its own: rename it")
        models = [value.evaluate.model for value in self.algorithms.values()]
        require(all(m == models[0] for m in models), "all algorithms must have the same evaluate.model")
        self._trials()  # refuses rates that cannot be used
        engines = [assemble(value) for value in self.algorithms.values()]
        if self.rates:
            scores = engines[0].evaluate(engines[0].server_model())
            require(
                TUNING_SCORE in scores,
                f"--tune chooses rates by the score {TUNING_SCORE}, which this task does not have "
                f"({', '.join(scores) or 'it has no scores'}): leave out --tune and set local.lr",
            )
        first = next(iter(self.algorithms.values()))
        for seed in [*self.seeds, *([self.tuning_seed] if self.rates else [])]:
            populate(replace(first, seed=seed))

    def run(self, store: RunStore, workers: Executor, watch: Watch | None) -> Comparison:
        models = list(next(iter(self.algorithms.values())).evaluate.outputs())
        chosen = {(label, model): e.local.lr for label, e in self.algorithms.items() for model in models}
        progress = _Progress(watch)
        if self.rates:
            trials = self._trials()
            later = sum(e.rounds for e in self.algorithms.values()) * len(self.seeds)
            _run_all(list(trials.values()), store, workers, progress.part(later))
            losses = {key: store.history(cell) for key, cell in trials.items()}
            for label, model in chosen:
                column = f"{model}_{TUNING_SCORE}"
                chosen[label, model] = _lowest(
                    {rate: losses[label, rate].tail_mean(column, TAIL) for rate in self.rates}
                )
        cells = {
            (label, model, seed): _cell(label, self.algorithms[label], rate, seed)
            for (label, model), rate in chosen.items()
            for seed in self.seeds
        }
        unique = {cell.name: cell for cell in cells.values()}
        _run_all(list(unique.values()), store, workers, progress.part(0))
        return Comparison(
            [
                ComparisonRow(
                    label, model, rate, self.seeds, [store.history(cells[label, model, seed]) for seed in self.seeds]
                )
                for (label, model), rate in chosen.items()
            ]
        )

    def _trials(self) -> dict[tuple[str, float], Cell]:
        return {
            (label, rate): _cell(label, e, rate, self.tuning_seed)
            for label, e in self.algorithms.items()
            for rate in self.rates
        }


class _Progress:
    """The rounds of several grids as one count."""

    def __init__(self, watch: Watch | None) -> None:
        self._watch, self._done = watch, 0

    def part(self, later: int) -> Watch:
        """The watch of the next grid; `later` rounds follow it."""
        before = self._done

        def watch(done: int, total: int) -> None:
            self._done = before + done
            if self._watch is not None:
                self._watch(before + done, before + total + later)

        return watch


def _run_all(cells: Sequence[Cell], store: RunStore, workers: Executor, watch: Watch) -> None:
    """Run the cells, and wait for those that another process runs."""
    run_cells(cells, store, workers, watch)
    while not all(store.finished(cell) for cell in cells):
        time.sleep(0.5)
        run_cells(cells, store, workers, watch)


def _cell(label: str, experiment: Experiment, rate: float, seed: int) -> Cell:
    name = f"{file_name(label)}-lr{rate:g}-seed{seed}"
    return Cell(name, replace(experiment, seed=seed, local=replace(experiment.local, lr=rate)))


def _lowest(losses: dict[float, float]) -> float:
    """The rate with the lowest loss; a diverged run is never chosen, unless all runs diverged."""
    return min(losses, key=lambda rate: losses[rate] if np.isfinite(losses[rate]) else np.inf)


# labels ------------------------------------------------------------------------------------------------------
def split_labels(text: str) -> list[str]:
    """The labels of a list such as `fedswe:k=10,./mine.py:Mine:damp=0.5,fedavg:chain=[clip:5,momentum:0.9]`."""
    labels = [label.strip() for label in _split(text, ",")]
    labels = [label for label in labels if label]
    for label in labels:
        require(labels.count(label) == 1, f"--algorithms names {label} twice")
    return labels


def parse_label(label: str) -> tuple[str, list[str]]:
    """The name of an algorithm and its key=value parameters. A name may be MODULE:CLASS or FILE.py:CLASS."""
    name, *parts = _split(label, ":")
    if parts and parts[0].isidentifier() and name not in registry.names("algorithm"):
        name = f"{name}:{parts.pop(0)}"
    for part in parts:
        require(
            "=" in part,
            f"--algorithms: cannot read {part!r} in {label}: write key=value, and chain=[clip:5]",
        )
    return name, parts


def file_name(label: str) -> str:
    """A label as a part of a file name: fedswe:k=10 gives fedswe_k10, ./mine.py:Mine gives mine.Mine."""
    name = re.sub(r":(?=[^:=\[\]]+=)", "_", label.replace(".py:", "."))
    name = re.sub(r"[:/]", ".", name).replace(",", "-")
    return re.sub(r"[^\w.+-]", "", name).lstrip(".")


def _split(text: str, separator: str) -> list[str]:
    """Split at separators outside brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "[{(") - (character in "]})")
        if character == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts
