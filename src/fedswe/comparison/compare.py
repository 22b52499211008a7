"""Run a comparison: choose local rates on one seed, run every algorithm with every other seed, tabulate."""

from __future__ import annotations

import math
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedswe import registry
from fedswe.comparison.labels import file_name, label_of, parse_label, run_name
from fedswe.comparison.table import Comparison, Histories, Run
from fedswe.core.algorithm import Algorithm
from fedswe.core.value import typed
from fedswe.errors import FedsweError, require, warn
from fedswe.experiment.configuration import dump, experiment, override
from fedswe.experiment.experiment import Experiment, assemble, populate
from fedswe.grid.runner import Executor, Watch, run_cells
from fedswe.grid.store import Cell, RunStore, Store
from fedswe.results.files import cannot_write, write_whole
from fedswe.results.history import History
from fedswe.results.table import has_diverged, more_is_better, tail_score
from fedswe.tracking import check_trackers

_WRITTEN = (".compare", "compare", ".report.", "report.")  # beginnings of names in a comparison
TUNING_SCORE = "train_loss"  # test data are not used for the choice of a rate, unless asked for


@typed
def compare(
    base: Experiment | Mapping[str, Experiment],
    algorithms: Sequence[str | Algorithm] | None = None,
    *,
    seeds: Sequence[int] = (3, 4, 6),
    rates: Sequence[float] = (),
    tuning_seed: int = 1,
    tune_by: str = "",
    out: str | Path | None = None,
    jobs: int = 0,
    on: str = "local",
    watch: Watch | None = None,
) -> Comparison:
    """Run several algorithms on the same clients and the same availability, with every seed.

    `base` is an experiment, which is run with each of `algorithms`: labels such as "fedswe:k=10", or instances; by
    default all that are built in or installed. Or it has an experiment for every label.

    With `rates`, each algorithm first runs once per local rate on `tuning_seed`, which is not reported; for each
    evaluated model the rate with the lowest final training loss is kept. `tune_by` names another score: the highest
    accuracy, the lowest loss, error or distance; of other scores say which, "max:r2" or "min:gap".

    With `out`, all runs are kept there as run directories, with compare.csv and compare_summary.csv. The same call
    continues an interrupted comparison, and two calls at once share the work. `jobs` and `on` say how many workers run
    where, as the options of the command do; `watch` is called with the rounds run and the rounds to run.
    """
    experiments = _experiments(base, algorithms)
    plan = _Plan(experiments, tuple(seeds), tuple(rates), tuning_seed, tune_by)
    plan.check()
    check_trackers(next(iter(experiments.values())).track, kept=out is not None)
    device = next(iter(experiments.values())).device
    with ExitStack() as opened:
        workers = opened.enter_context(Executor(on, jobs, device))
        if out is None:
            place = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="fedswe-")))
        else:
            place = _opened(Path(out))
        result = plan.run(RunStore(place), workers, watch)
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


def labelled(table: dict[str, Any], label: str) -> Experiment:
    """The experiment of one algorithm; parameters in the table apply to the algorithm that the table names."""
    name, parameters = parse_label(label)
    return experiment(override(table, [f"algorithm.name={name}", *(f"algorithm.{p}" for p in parameters)]))


def _opened(out: Path) -> Path:
    """A directory that is new, empty, or holds a comparison to be continued."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        others = [p.name for p in out.iterdir() if p.name not in ("runs", ".locks") and not p.name.startswith(_WRITTEN)]
    except OSError as error:
        raise cannot_write(out, error) from None
    require(not others, f"{out} holds other files ({', '.join(others[:1])}): choose another --out")
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
            require(way in ("max", "min"), f"--tune-by must be a score, max:SCORE or min:SCORE, not {text!r}")
            return cls(score, way == "max")
        highest = more_is_better(score)
        require(highest is not None, f"--tune-by {score}: is more or less better? Write max:{score} or min:{score}")
        return cls(score, bool(highest))

    def check(self, scores: Sequence[str], asked: bool) -> None:
        require(scores, "this task has no scores to choose rates by: leave out --tune, and set local.lr")
        if self.score not in scores:
            missing = f"this task has no {self.score} to choose rates by"
            what = "choose another --tune-by" if asked else "name another score with --tune-by"
            raise FedsweError(f"{missing}: {what}, one of {', '.join(scores)}")
        if self.score.startswith("test"):
            warn(
                f"rates are chosen by {self.score}: the test data are then no longer unseen, and their scores too good"
            )

    def best(self, tried: Mapping[float, History], model: str, models: Sequence[str]) -> float:
        """The best rate for a model; one with which it diverged is never chosen, unless it did so with all of them."""

        def order(rate: float) -> tuple[bool, float]:
            value = tail_score(tried[rate], f"{model}_{self.score}")
            worth = (-value if self.highest else value) if math.isfinite(value) else math.inf
            return has_diverged(tried[rate], f"{model}_", f"{model}_{self.score}", models), worth

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
        return _Criterion.named(self.tune_by or TUNING_SCORE)

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
        for trial in self._trials:
            self._cell(*trial)  # refuses rates that cannot be used
        engines = [assemble(value) for value in self.algorithms.values()]
        require(self.rates or not self.tune_by, "--tune-by needs --tune: give the local rates to choose from")
        if self.rates:
            scores = engines[0].evaluate(engines[0].server_model())
            self._criterion.check(list(scores), asked=bool(self.tune_by))
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

    def run(self, store: RunStore, workers: Executor, watch: Watch | None) -> Comparison:
        models = list(next(iter(self.algorithms.values())).evaluate.outputs())
        chosen = {(label, model): e.local.lr for label, e in self.algorithms.items() for model in models}
        rounds = sum(e.rounds for e in self.algorithms.values())
        before, later = rounds * len(self.rates), rounds * len(self.seeds)
        tried = Histories()
        if self.rates:
            first = watch and (lambda done, to_do: watch(done, to_do + later))
            tried = self._run(self._trials, store, workers, first)
            for label, model in chosen:
                of_rate = {rate: tried[label, rate, self.tuning_seed] for rate in self.rates}
                chosen[label, model] = self._criterion.best(of_rate, model, models)
            self._warn_at_the_edge(chosen)
        runs = [(label, rate, seed) for (label, _), rate in chosen.items() for seed in self.seeds]
        both = watch and (lambda done, to_do: watch(before + done, before + to_do))
        return Comparison(tried | self._run(runs, store, workers, both), chosen, self.seeds)

    @property
    def _trials(self) -> list[Run]:
        return [(label, rate, self.tuning_seed) for label in self.algorithms for rate in self.rates]

    def _cell(self, label: str, rate: float, seed: int) -> Cell:
        value = self.algorithms[label]
        return Cell(run_name(label, rate, seed), replace(value, seed=seed, local=replace(value.local, lr=rate)))

    def _run(self, runs: list[Run], store: RunStore, workers: Executor, watch: Watch | None) -> Histories:
        cells = {run: self._cell(*run) for run in runs}
        run_to_end(list(cells.values()), store, workers, watch)
        return {run: store.history(cell) for run, cell in cells.items()}


def run_to_end(cells: Sequence[Cell], store: Store, workers: Executor, watch: Watch | None) -> None:
    """Run the cells, and wait for those that another process runs."""
    run_cells(cells, store, workers, watch)
    while not all(store.finished(cell) for cell in cells):
        time.sleep(0.5)
        run_cells(cells, store, workers, watch)
