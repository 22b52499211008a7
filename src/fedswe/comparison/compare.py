"""Run a comparison: choose local rates on one seed, run every algorithm with every other seed, tabulate.

The result has every score of every run as one table, and mean and standard deviation over seeds.
"""

from __future__ import annotations

import math
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from fedswe import registry
from fedswe.comparison.labels import file_name, label_of, labelled, number_text, run_name
from fedswe.core.algorithm import Algorithm
from fedswe.core.value import typed
from fedswe.errors import require, warn
from fedswe.experiment.configuration import dump
from fedswe.experiment.experiment import Experiment, assemble, populate
from fedswe.grid.runner import Executor, Watch, run_cells
from fedswe.grid.store import Cell, RunStore, Store
from fedswe.progress import Progress
from fedswe.results.display import Displayed
from fedswe.results.files import cannot_write, write_whole
from fedswe.results.history import History, written
from fedswe.results.table import TAIL, common_scores, final_scores, headline, long, more_is_better
from fedswe.tracking import check_trackers

Run = tuple[str, float, int]  # label, local rate, seed
Histories = dict[Run, History]

_KEYS = ["algorithm", "model", "local_lr"]
_WRITTEN = (".compare", "compare", ".report.", "report.")  # beginnings of names in a comparison
TUNING_SCORE = "train_loss"  # test data are not used for the choice of a rate, unless asked for


def tuning_score(score: str | None) -> str:
    """What rates are chosen by unless another is named: evaluate.score, of training samples, or the training loss."""
    return score.replace("test_", "train_", 1) if score else TUNING_SCORE


@typed
def compare(
    base: Experiment | Mapping[str, Experiment],
    algorithms: Sequence[str | Algorithm] | None = None,
    *,
    seeds: Sequence[int] = (3, 4, 6),
    tune: Sequence[float] = (),
    tuning_seed: int | None = None,
    tune_by: str = "",
    out: str | Path | None = None,
    jobs: int = 0,
    on: str = "local",
    watch: Watch | None = None,
) -> Comparison:
    """Run several algorithms on the same clients and the same availability, with every seed.

    `base` is an experiment, which is run with each of `algorithms`: labels such as "fedswe:k=10", or instances; by
    default all that are built in or installed. Or it has an experiment for every label.

    With `tune`, each algorithm first runs once with each of these local rates on `tuning_seed`, which is not reported;
    by default that is 1, or the first number that is none of the seeds. For each evaluated model the rate with the
    lowest final training loss is kept, or that with the best evaluate.score (on training samples in place of test
    samples). `tune_by` names another score: the highest accuracy, the lowest loss, error or distance; of other scores
    say which, "max:r2" or "min:gap".

    With `out`, all runs are kept there as run directories, with compare.csv and compare_summary.csv. The same call
    continues an interrupted comparison, and two calls at once share the work. `jobs` and `on` say how many workers run
    where, as the options of the command do. `watch` is called with the rounds run and the rounds to run; without it
    they are shown on a terminal and in a notebook.
    """
    experiments = _experiments(base, algorithms)
    free = next(seed for seed in (1, 0, *range(2, len(seeds) + 2)) if seed not in seeds)
    plan = _Plan(experiments, tuple(seeds), tuple(tune), free if tuning_seed is None else tuning_seed, tune_by)
    for value in experiments.values():
        dump(value, kept=out is not None)
    plan.check()
    check_trackers(next(iter(experiments.values())).track, kept=out is not None)
    device = next(iter(experiments.values())).device
    with ExitStack() as opened:
        workers = opened.enter_context(Executor(on, jobs, device))
        place = _opened(Path(out or opened.enter_context(tempfile.TemporaryDirectory(prefix="fedswe-"))))
        result = plan.run(RunStore(place), workers, watch or opened.enter_context(Progress()))
    if out is not None:
        write_whole(place / "compare.csv", result.to_csv())
        write_whole(place / "compare_summary.csv", result.summary_csv())
    return result


def _experiments(
    base: Experiment | Mapping[str, Experiment], algorithms: Sequence[str | Algorithm] | None
) -> dict[str, Experiment]:
    if isinstance(base, Mapping):
        require(algorithms is None, "compare: give one experiment and a list of algorithms, or experiments by label")
        return dict(base)
    table, found = tomllib.loads(dump(base)), dict[str, Experiment]()
    for item in registry.names("algorithm") if algorithms is None else algorithms:
        if isinstance(item, Algorithm):
            label, made = label_of("algorithm", item), replace(base, algorithm=item)
        else:
            label, made = item, replace(base, algorithm=labelled(table, item).algorithm)
        require(label not in found, f"compare: algorithms has {label} twice")
        found[label] = made
    return found


def _opened(out: Path) -> Path:
    """A directory that is new, empty, or holds a comparison to be continued."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        others = [p.name for p in out.iterdir() if p.name not in ("runs", ".locks") and not p.name.startswith(_WRITTEN)]
    except OSError as error:
        raise cannot_write(out, error) from None
    require(not others, f"{out} holds other files ({', '.join(others[:1])}): choose another out=")
    return out


@dataclass(frozen=True)
class _Criterion:
    """What rates are chosen by."""

    score: str
    highest: bool

    @classmethod
    def named(cls, text: str) -> _Criterion:
        way, colon, score = text.rpartition(":")
        if colon:
            require(way in ("max", "min"), f"tune_by= must be a score, max:SCORE or min:SCORE, not {text!r}")
            return cls(score, way == "max")
        highest = more_is_better(score)
        require(highest is not None, f'tune_by="{score}": is more or less better? Write max:{score} or min:{score}')
        return cls(score, bool(highest))

    def check(self, scores: Sequence[str]) -> None:
        require(scores, "this task has no scores to choose rates by: leave out tune=, and set local.lr")
        missing = f"this task has no {self.score} to choose rates by"
        require(self.score in scores, f"{missing}: name another score with tune_by=, one of {', '.join(scores)}")
        if self.score.startswith("test"):
            warn(
                f"rates are chosen by {self.score}: the test data are then no longer unseen, and their scores too good"
            )

    def best(self, tried: Mapping[float, History], model: str, models: Sequence[str]) -> float:
        """The best rate for a model; one with which it diverged is never chosen, unless it did so with all of them."""

        def order(rate: float) -> tuple[bool, float]:
            (found,) = (row for row in final_scores(tried[rate], model, models) if row["score"] == self.score)
            worth = -found["value"] if self.highest else found["value"]
            return found["diverged"], worth if math.isfinite(worth) else math.inf

        return min(tried, key=order)


@dataclass(frozen=True)
class _Plan:
    algorithms: dict[str, Experiment]
    seeds: tuple[int, ...]
    rates: tuple[float, ...]
    tuning_seed: int
    tune_by: str  # "": the training loss

    @property
    def _criterion(self) -> _Criterion:
        return _Criterion.named(self.tune_by or tuning_score(self._score))

    @property
    def _score(self) -> str | None:
        return next(iter(self.algorithms.values())).evaluate.score

    def check(self) -> None:
        """Find every mistake before the first run: of each algorithm, and of the clients of each seed."""
        require(self.algorithms, "algorithms= is empty: name some of `fedswe list`, or leave it out")
        require(self.seeds, "seeds= is empty: give at least one")
        require(len(set(self.seeds)) == len(self.seeds), "seeds= names one seed twice")
        taken = self.rates and self.tuning_seed in self.seeds
        require(not taken, f"seed {self.tuning_seed} is used for tuning: choose other seeds= or another tuning_seed=")
        require(len(set(self.rates)) == len(self.rates), "tune= names one rate twice")
        names = [file_name(label) for label in self.algorithms]
        for label, name in zip(self.algorithms, names, strict=True):
            require(name and names.count(name) == 1, f"{label!r} gives no directory name of its own: rename it")
        models = [value.evaluate.model for value in self.algorithms.values()]
        require(all(m == models[0] for m in models), "all algorithms must have the same evaluate.model")
        for trial in self._trials:
            self._cell(*trial)  # refuses rates that cannot be used
        engines = [assemble(value) for value in self.algorithms.values()]
        require(self.rates or not self.tune_by, "tune_by= needs tune=: give the local rates to choose from")
        if self.rates:
            scores = engines[0].evaluate(engines[0].server_model())
            self._criterion.check(list(scores))
        first = next(iter(self.algorithms.values()))
        for seed in [*self.seeds, *([self.tuning_seed] if self.rates else [])]:
            populate(replace(first, seed=seed))

    def _warn_at_the_edge(self, chosen: Mapping[tuple[str, str], float]) -> None:
        """A better rate may lie outside the rates to choose from."""
        for name, edge, more in (("largest", max(self.rates), "larger"), ("smallest", min(self.rates), "smaller")):
            labels = list(dict.fromkeys(label for (label, _), rate in chosen.items() if rate == edge))
            if labels and len(self.rates) > 1:
                shown = ", ".join(labels[:5]) + (", ..." if len(labels) > 5 else "")
                warn(f"the chosen local rate is the {name} ({edge:g}) for {shown}: add {more} rates to choose from")

    def run(self, store: RunStore, workers: Executor, watch: Watch) -> Comparison:
        models = list(next(iter(self.algorithms.values())).evaluate.outputs())
        chosen = {(label, model): e.local.lr for label, e in self.algorithms.items() for model in models}
        rounds = sum(e.rounds for e in self.algorithms.values())
        before, later = rounds * len(self.rates), rounds * len(self.seeds)
        tried = Histories()
        if self.rates:
            tried = self._run(self._trials, store, workers, lambda done, to_do: watch(done, to_do + later))
            for label, model in chosen:
                of_rate = {rate: tried[label, rate, self.tuning_seed] for rate in self.rates}
                chosen[label, model] = self._criterion.best(of_rate, model, models)
            self._warn_at_the_edge(chosen)
        runs = [(label, rate, seed) for (label, _), rate in chosen.items() for seed in self.seeds]
        ran = self._run(runs, store, workers, lambda done, to_do: watch(before + done, before + to_do))
        return Comparison(tried | ran, chosen, self.seeds, self._score)

    @property
    def _trials(self) -> list[Run]:
        return [(label, rate, self.tuning_seed) for label in self.algorithms for rate in self.rates]

    def _cell(self, label: str, rate: float, seed: int) -> Cell:
        value = self.algorithms[label]
        return Cell(run_name(label, rate, seed), replace(value, seed=seed, local=replace(value.local, lr=rate)))

    def _run(self, runs: list[Run], store: RunStore, workers: Executor, watch: Watch) -> Histories:
        cells = {run: self._cell(*run) for run in runs}
        run_to_end(list(cells.values()), store, workers, watch)
        return {run: store.history(cell) for run, cell in cells.items()}


def run_to_end(cells: Sequence[Cell], store: Store, workers: Executor, watch: Watch | None) -> None:
    """Run the cells, and wait for those that another process runs."""
    run_cells(cells, store, workers, watch)
    while not all(store.finished(cell) for cell in cells):
        time.sleep(0.5)
        run_cells(cells, store, workers, watch)


# the result --------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Displayed):
    histories: Histories
    chosen: Mapping[tuple[str, str], float]  # the local rate of a label and an evaluated model
    seeds: tuple[int, ...]  # runs with other seeds served to choose a rate, and are not reported
    score: str | None = None  # evaluate.score

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row per algorithm, seed, local rate, round, model and score.

        `tuning` marks the runs that only served to choose a rate, `chosen` the rate that was chosen for the algorithm
        and the model. Means and standard deviations are those of the rows that are chosen and not tuning.
        """
        pairs = {(label, model, rate) for (label, of), rate in self.chosen.items() for model in (of, "")}
        runs = (
            ({"algorithm": label, "seed": seed, "local_lr": rate, "tuning": seed not in self.seeds}, history)
            for (label, rate, seed), history in self.histories.items()
        )
        table = long(runs, self.models)
        table.insert(4, "chosen", [key in pairs for key in table[_KEYS].itertuples(index=False, name=None)])
        return table

    @cached_property
    def finals(self) -> pd.DataFrame:
        """A row per reported run, model and score: the mean over the last rounds, and whether the run diverged."""
        rows = [
            {"algorithm": label, "model": model, "local_lr": rate, "seed": seed, **row}
            for (label, model), rate in self.chosen.items()
            for seed in self.seeds
            for row in final_scores(self.histories[label, rate, seed], model, self.models)
        ]
        return pd.DataFrame(rows, columns=[*_KEYS, "seed", "score", "value", "diverged"])

    @cached_property
    def means(self) -> pd.DataFrame:
        """A row per algorithm, model and score: how many runs diverged, mean and standard deviation over seeds.

        NaN is the deviation of one seed, and both if a run diverged.
        """
        finals = self.finals.assign(value=self.finals["value"].mask(self.finals["diverged"]))
        return finals.groupby([*_KEYS, "score"], sort=False).agg(
            diverged=("diverged", "sum"),
            mean=("value", lambda values: values.mean(skipna=False)),
            std=("value", lambda values: values.std(skipna=False)),
        )

    @cached_property
    def summary(self) -> pd.DataFrame:
        """The means of the scores that all have, with a row per algorithm and model."""
        found = pd.DataFrame([(*pair, rate, len(self.seeds)) for pair, rate in self.chosen.items()])
        found = found.set_axis([*_KEYS, "seeds"], axis="columns").set_index(_KEYS)
        found["diverged"] = self.means.groupby(_KEYS)["diverged"].max().reindex(found.index, fill_value=0)
        for score in self.scores:
            found[[f"{score}_mean", f"{score}_std"]] = self.means.xs(score, level="score")[["mean", "std"]]
        return found.reset_index()

    @property
    def models(self) -> list[str]:
        return list(dict.fromkeys(model for _, model in self.chosen))

    @property
    def scores(self) -> list[str]:
        """The scores that all algorithms have for all models."""
        return common_scores(self.finals, ["algorithm", "model", "seed"])

    @property
    def headline(self) -> str | None:
        """The score to read first, of those that all have."""
        return headline(self.scores, self.score)

    def to_target(self, target: float) -> list[dict[str, Any]]:
        """For each algorithm and model and each seed, the round after which the headline score first reached a target.

        None where it never did. Also the simulated seconds, of runs that have them.
        """
        found = []
        for (label, model), rate in self.chosen.items() if self.headline else ():
            column, runs = f"{model}_{self.headline}", [self.histories[label, rate, seed] for seed in self.seeds]
            seconds = [run.seconds_to(column, target) for run in runs if "simulated_seconds" in run.columns]
            rounds = [run.rounds_to(column, target) for run in runs]
            found.append({"algorithm": label, "model": model, "rounds": rounds, "simulated_seconds": seconds})
        return found

    def _shown(self) -> tuple[dict[str, pd.DataFrame], list[str]]:
        score = [f"{self.headline}_{of}" for of in ("mean", "std")] if self.headline else []
        shown = self.summary[["algorithm", "model", "local_lr", "diverged", *score]].set_index("algorithm")
        return {f"Comparison with the seeds {', '.join(map(str, self.seeds))}": shown.rename_axis(None)}, []

    # as text -----------------------------------------------------------------------------------------------------
    def to_csv(self) -> str:
        """The table of the scores that all models have, numbers with all digits."""
        found = self.table[(self.table["model"] != "") & self.table["score"].isin(self.scores)]
        texts = {name: found[name].map(written) for name in ("local_lr", "value")}
        texts |= {name: found[name].map({True: "true", False: "false"}) for name in ("tuning", "chosen")}
        return str(found.assign(**texts).to_csv(index=False, lineterminator="\n"))

    def summary_csv(self) -> str:
        """The summary, numbers with six digits."""
        text = self.summary.assign(local_lr=self.summary["local_lr"].map(number_text))
        return str(text.to_csv(index=False, float_format="%.6g", na_rep="nan", lineterminator="\n"))

    def to_json(self) -> dict[str, Any]:
        """The summary as plain values, of all scores; NaN and infinity stay."""
        rows = []
        for row in self.summary[[*_KEYS, "diverged"]].to_dict("records"):
            key = [row[column] for column in _KEYS]
            finals = self.finals[(self.finals[_KEYS] == key).all(axis="columns")]
            by_seed = finals.groupby("seed", sort=False)[["score", "value"]]
            rows.append(
                {
                    **row,
                    "scores": self.means.loc[tuple(key)][["mean", "std"]].to_dict("index"),
                    "seeds": {int(seed): dict(of.itertuples(index=False)) for seed, of in by_seed},
                }
            )
        return {"headline": self.headline, "tail": TAIL, "rows": rows}
