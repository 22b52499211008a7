"""Several algorithms on the same clients, the same availability and the same tuning effort."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedswe.errors import FedsweError, require
from fedswe.experiment.experiment import Experiment
from fedswe.experiment.runner import RUNS_PER_STACK, kind_of, processes, run_together
from fedswe.grid.processes import Workers
from fedswe.results.history import History
from fedswe.results.run_directory import create_empty

TAIL = 50  # rounds at the end over which scores are averaged, as in the paper


@dataclass(frozen=True)
class Cell:
    """One run of a comparison."""

    label: str  # the algorithm as the user wrote it
    experiment: Experiment

    @property
    def rate(self) -> float:
        return self.experiment.local.lr

    @property
    def name(self) -> str:
        return f"{self.label.replace(':', '_').replace('=', '')}-lr{self.rate:g}-seed{self.experiment.seed}"


@dataclass(frozen=True)
class Entry:
    """One line of the table: an algorithm judged at one model, over seeds."""

    label: str
    model: str
    rate: float
    histories: list[History]

    def score(self, name: str) -> tuple[float, float]:
        """Mean and standard deviation over seeds (NaN for one) of a score averaged over the last rounds."""
        values = [h.tail_mean(f"{self.model}_{name}", TAIL) for h in self.histories]
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
        return float(np.mean(values)), spread

    def scores(self) -> list[str]:
        """What the model was scored by."""
        start = f"{self.model}_"
        return [c.removeprefix(start) for c in self.histories[0].columns if c.startswith(start)]


@dataclass(frozen=True)
class Comparison:
    entries: list[Entry]

    @property
    def headline(self) -> str:
        """The score to read first."""
        return "test_accuracy" if "test_accuracy" in self.entries[0].scores() else "train_loss"

    def to_csv(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        names = self.entries[0].scores()
        spread = [f"{name}_{part}" for name in names for part in ("mean", "std")]
        writer.writerow(["algorithm", "model", "local_lr", "seeds", *spread])
        for e in self.entries:
            numbers = [f"{value:.6g}" for name in names for value in e.score(name)]
            writer.writerow([e.label, e.model, f"{e.rate:g}", len(e.histories), *numbers])
        return text.getvalue()


Watch = Callable[[int, int, Cell], None]  # cells done, cells known so far, the cell that just ended


def compare(
    algorithms: Sequence[tuple[str, Experiment]],
    seeds: Sequence[int],
    rates: Sequence[float] = (),
    tuning_seed: int = 1,
    out: Path | None = None,
    jobs: int | None = None,
    watch: Watch | None = None,
) -> Comparison:
    """Run every algorithm with every seed.

    With `rates`, each algorithm first runs once per local rate on `tuning_seed`, which is not reported; for each
    evaluated model the rate with the lowest final training loss is kept. Test data play no part in the choice.
    """
    if rates and tuning_seed in seeds:
        raise FedsweError(f"seed {tuning_seed} is used for tuning: choose other --seeds or another --tuning-seed")
    require(len(set(seeds)) == len(seeds), "--seeds names one seed twice")
    trials = [_cell(label, e, rate, tuning_seed) for label, e in algorithms for rate in rates]
    require(len({cell.name for cell in trials}) == len(trials), "--tune names one rate twice")
    if out is not None:
        create_empty(out)
    models = algorithms[0][1].evaluate.model
    chosen = {(label, model): e.local.lr for label, e in algorithms for model in models}
    with _Cells(algorithms[0][1].device, jobs, out, watch) as workers:
        if rates:
            tried = workers.run(trials, to_come=len(algorithms) * len(seeds))
            for label, model in chosen:
                own = [
                    (c.rate, tried[c.name].tail_mean(f"{model}_train_loss", TAIL)) for c in trials if c.label == label
                ]
                chosen[label, model] = _lowest(dict(own))
        grid = {
            (label, model, seed): _cell(label, e, chosen[label, model], seed)
            for label, e in algorithms
            for model in models
            for seed in seeds
        }
        histories = workers.run(list({cell.name: cell for cell in grid.values()}.values()))
    return Comparison(
        [
            Entry(label, model, rate, [histories[grid[label, model, seed].name] for seed in seeds])
            for (label, model), rate in chosen.items()
        ]
    )


def _cell(label: str, experiment: Experiment, rate: float, seed: int) -> Cell:
    return Cell(label, replace(experiment, seed=seed, local=replace(experiment.local, lr=rate)))


def _lowest(losses: dict[float, float]) -> float:
    """The rate of the lowest loss; a run that blew up loses to any that did not."""
    return min(losses, key=lambda rate: losses[rate] if np.isfinite(losses[rate]) else np.inf)


class _Cells:
    """Runs cells, in several processes or in this one."""

    def __init__(self, device: str, jobs: int | None, out: Path | None, watch: Watch | None) -> None:
        self._out, self._watch, self._done = out, watch, 0
        self._company = RUNS_PER_STACK[kind_of(device)]
        jobs = processes(device, jobs or 0)
        self._pool = Workers(jobs) if jobs > 1 else None

    def __enter__(self) -> _Cells:
        return self

    def __exit__(self, failure: object, *_: object) -> None:
        if self._pool is not None:
            if failure is not None:
                self._pool.abandon()  # nobody waits for what still runs
            self._pool.shutdown(cancel_futures=True)

    def run(self, cells: Sequence[Cell], to_come: int = 0) -> dict[str, History]:
        """The histories by cell name; `to_come` cells will follow, for the progress display."""
        known = self._done + len(cells) + to_come
        histories: dict[str, History] = {}
        for company, ended in self._finished(cells):
            histories |= {cell.name: history for cell, history in zip(company, ended, strict=True)}
            self._done += len(company)
            if self._watch is not None:
                self._watch(self._done, known, company[-1])
        return histories

    def _finished(self, cells: Sequence[Cell]) -> Iterator[tuple[list[Cell], list[History]]]:
        """Companies of cells with their histories, in the order they end."""
        companies = [list(cells[at : at + self._company]) for at in range(0, len(cells), self._company)]
        if self._pool is None:
            yield from ((company, _run_company(company, self._out)) for company in companies)
        else:
            try:
                futures = {self._pool.submit(_run_company, company, self._out): company for company in companies}
                yield from ((futures[future], future.result()) for future in as_completed(futures))
            except BrokenProcessPool:
                raise FedsweError("a process of the comparison was killed; short of memory? Use fewer --jobs") from None


def _run_company(cells: Sequence[Cell], out: Path | None) -> list[History]:
    places = [None if out is None else out / "runs" / cell.name for cell in cells]
    return run_together([cell.experiment for cell in cells], places)
