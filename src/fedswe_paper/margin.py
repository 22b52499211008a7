"""Margins: the number that decides a place of a claim, its standard error over seeds, and the threshold to exceed.

A margin is counted so that the paper's claim says it is above the threshold. It is decided where the threshold is
outside its confidence interval (Student's t, 95 % on both sides together), and undecided inside of it. All runs of a
margin have the same length, up to 1 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from fedswe.results.table import quantile
from fedswe_paper.cell import PaperCell
from fedswe_paper.measurements import Measurements, common_length, first_round_of, one_phase, regular
from fedswe_paper.results import FinishedRun
from fedswe_paper.scale import SCALES

ENOUGH = 3  # seeds from which on the spread of a margin is its own; with fewer it is that of its rows, or of others

Status = Literal["holds", "does not hold", "undecided", "diverged, undecided", "not yet measured"]
STATUSES: tuple[Status, ...] = ("holds", "does not hold", "undecided", "diverged, undecided", "not yet measured")
Beyond = Literal["", "at least", "at most", "unknown"]
Unit = Literal["points", "%", "rounds", "log10", ""]


@dataclass(frozen=True)
class Margin:
    what: str
    mean: float  # NaN: a run that it needs diverged
    error: float  # standard error of the mean; 0: exact; NaN: not known
    freedom: int  # degrees of freedom of the error; 0: exact, or not known
    seeds: tuple[int, ...]  # the runs are paired by these; none: exact
    threshold: float = 0.0
    unit: Unit = "points"
    beyond: Beyond = ""  # a run that never arrived bounds the mean
    rounds: int = 0  # of the runs; 0: exact
    of_paper: int = 0  # rounds that the paper has there, at this scale
    phase: bool = False  # in turns of groups, of a server model that was read in one phase
    eventually: bool = False  # the claim is about what comes at last: fewer rounds than the paper's cannot refute it

    @property
    def exact(self) -> bool:
        return not self.seeds

    @property
    def gap(self) -> float:
        return self.mean - self.threshold

    @property
    def excess(self) -> float:
        """How far beyond the threshold, in standard errors: what margins are compared by."""
        if math.isnan(self.mean) or math.isnan(self.error):
            return 0.0
        return self.gap / self.error if self.error else math.copysign(math.inf, self.gap) if self.gap else 0.0

    @property
    def status(self) -> Status:
        if math.isnan(self.mean):
            return "diverged, undecided"
        reach = 0.0 if self.exact else quantile(self.freedom) * self.error  # half the width of the confidence interval
        unsure = math.isnan(reach) or abs(self.gap) <= reach or self.phase
        bounded = self.beyond != "" and self.beyond != ("at least" if self.gap > 0 else "at most")
        if unsure or bounded or (self.eventually and self.gap < 0 and self.rounds < self.of_paper):
            return "undecided"
        return "holds" if self.gap > 0 else "does not hold"


def exact(what: str, value: float, threshold: float, unit: Unit = "") -> Margin:
    """A margin that no run is needed for."""
    return Margin(what, value, 0.0, 0, (), threshold, unit)


# Numbers of single runs, each at one model: the profile's, or one for all -------------------------------------
@dataclass(frozen=True)
class Statistic:
    """A number of a run that did not diverge; infinite: never reached in its rounds."""

    of: Callable[[FinishedRun], float]
    output: str | None = None  # the model it is of; None: the one that the profile judges the method by
    whole: bool = True  # runs up to 1 % shorter than the longest of their line are left out
    resolution: float = 0.0  # the step in which the number is measured
    one_phase: bool = False  # read in one phase of the period, where groups take turns

    def __call__(self, run: FinishedRun) -> float:
        """NaN where the run diverged, whatever it reached before: no verdict rests on it."""
        return math.nan if run.diverged else self.of(run)


def accuracy(output: str | None = None, part: str = "test") -> Statistic:
    """Mean of the last rounds, percent."""
    return Statistic(lambda run: run.score(f"{part}_accuracy", output), output, whole=False)


def swing(output: str | None = None) -> Statistic:
    """Standard deviation of the test accuracy, points: over the last rounds.

    In turns of groups about a straight line through the second half of the run, for a curve that still rises does not
    fluctuate by that, and in one phase of the period: over all phases it would measure the alternation of the groups,
    which the paper's figures, sampled once a period, do not show. NaN where too few values leave no residual.
    """

    def of(run: FinishedRun) -> float:
        column = column_of(run, output)
        if not run.cell.periodic:
            return 100 * float(np.std(tail(run, column)))
        values = np.array(second_half(run, column))
        if len(values) < 3:
            return math.nan
        at = np.arange(len(values))
        return 100 * float(np.std(values - np.polyval(np.polyfit(at, values, 1), at)))

    return Statistic(of, output)


def peak(output: str | None = None) -> Statistic:
    """The highest test accuracy of the regular evaluations, percent; in turns of groups in one phase of the period."""
    highest = Statistic(lambda run: 100 * max(row[column_of(run, output)] for row in regular(run)), output)
    return replace(highest, one_phase=True)


def arrival(cell: PaperCell, target: float, output: str | None = None) -> Statistic:
    """The first round of the curve with a test accuracy of this fraction."""
    step = SCALES[cell.scale].period if cell.periodic else cell.experiment().evaluate.every
    return Statistic(lambda run: first_round_of(run, target, output), output, resolution=step, one_phase=True)


def column_of(run: FinishedRun, output: str | None) -> str:
    return f"{output or run.cell.judged_by}_test_accuracy"


def second_half(run: FinishedRun, column: str) -> list[float]:
    return [row[column] for row in one_phase(run) if row["round"] > run.history.last["round"] / 2]


def tail(run: FinishedRun, column: str) -> list[float]:
    first = run.history.last["round"] - run.cell.experiment().evaluate.tail
    return [row[column] for row in run.history.rows if row["round"] > first]


# Of several runs ----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Spread:
    """The standard deviation over seeds: of a row with enough of them, or pooled over such rows."""

    std: float
    freedom: int


@dataclass(frozen=True)
class Numbers:
    """A statistic of the runs of one line."""

    measured: Measurements
    cell: PaperCell
    statistic: Statistic
    chosen: frozenset[int] | None = None  # these seeds, at the length that the cell names; None: all, at any

    @property
    def _runs(self) -> list[FinishedRun]:
        return self.measured.of(self.cell) if self.statistic.whole else self.measured.scored(self.cell)

    @cached_property
    def values(self) -> dict[int, float]:
        """By seed."""
        runs = {run.cell.seed: run for run in self._runs}
        return {seed: self.statistic(run) for seed, run in runs.items() if self.chosen is None or seed in self.chosen}

    @property
    def mean(self) -> float:
        return float(np.mean(list(self.values.values())))

    @property
    def lengths(self) -> list[int]:
        """Rounds that the line was run for; none where its runs have been chosen."""
        return self.measured.rounds(self.cell) if self.chosen is None else []

    @property
    def longest(self) -> int:
        """What "never" is beyond."""
        return max(self.measured.rounds(self.cell), default=0)

    @property
    def of_paper(self) -> int:
        """Rounds that the paper has, at this scale."""
        return replace(self.cell, rounds=0).experiment().rounds

    def at(self, rounds: int) -> Numbers:
        return replace(self, cell=replace(self.cell, rounds=rounds))

    def seeds_at(self, rounds: int) -> list[int]:
        return [run.cell.seed for run in self.at(rounds)._runs]

    @property
    def phase(self) -> bool:
        """Whether it is of a server model that was read in one phase of the period."""
        judged_by = self.statistic.output or self.cell.judged_by
        return self.statistic.one_phase and self.cell.periodic and judged_by == "server"

    @property
    def own_spread(self) -> Spread | None:
        """Of this row, where it has ENOUGH seeds: others of them than a margin has."""
        values = [self.statistic(run) for run in self._runs]
        if len(values) < ENOUGH or not np.isfinite(values).all():
            return None
        return Spread(float(np.std(values, ddof=1)), len(values) - 1)

    @property
    def spread(self) -> Spread | None:
        """Of the row itself, of the method's rows on the same data and kind of availability, or of all at its model."""
        known = self.measured, self.cell, self.statistic
        return self.own_spread or pooled(*known, of_method=True) or pooled(*known)


def pooled(measured: Measurements, cell: PaperCell, statistic: Statistic, of_method: bool = False) -> Spread | None:
    """Of all rows with ENOUGH seeds that train, on the same data, under the same kind of availability, as long.

    All are judged by one model: a server model varies far more over seeds than a client mean. Methods differ in their
    spread, too: `of_method` takes the rows of the cell's own only, and where none is as long, those of another length.
    """

    def kind(line: PaperCell) -> tuple[object, ...]:
        method = (line.algorithm, line.k) if of_method else ()
        as_in_the_paper = not (line.rate or line.hold_out or line.reading)
        return line.dataset, line.periodic, line.p > 0, as_in_the_paper, statistic.output or line.judged_by, method

    lines = [line for line in measured.lines if kind(line) == kind(cell)]
    lengths = [max(measured.rounds(cell), default=0)]
    if of_method:
        others = {length for line in lines for length in measured.rounds(line)}
        lengths += sorted(others - set(lengths), reverse=True)
    for rounds in lengths:
        rows = [row for row in (replace(line, rounds=rounds) for line in lines) if not measured.at_chance(row)]
        spreads = [spread for row in rows if (spread := Numbers(measured, row, statistic).own_spread)]
        if freedom := sum(spread.freedom for spread in spreads):
            return Spread(math.sqrt(sum(spread.freedom * spread.std**2 for spread in spreads) / freedom), freedom)
    return None


def margin(
    what: str,
    terms: Sequence[tuple[float, Numbers]],
    threshold: float = 0.0,
    unit: Unit = "points",
    eventually: bool = False,
) -> Margin | None:
    """A weighted sum of numbers of several lines, seed by seed; None where no seed has all of them at one length."""
    rows, weights = alike([of for _, of in terms]), [weight for weight, _ in terms]
    seeds = sorted(set.intersection(*(set(of.values) for of in rows)))
    if not seeds:
        return None
    sums: list[float] = []
    beyond: set[Beyond] = set()
    for seed in seeds:
        total = 0.0
        for weight, of in zip(weights, rows, strict=True):
            value = of.values[seed]
            if math.isinf(value):
                beyond.add("at least" if weight > 0 else "at most")
                value = of.longest
            total += weight * value
        sums.append(total)
    size = math.sqrt(sum(weight**2 for weight in weights))
    grain = max(of.statistic.resolution for of in rows) * size / math.sqrt(12)  # of a number rounded to this resolution
    if len(seeds) >= ENOUGH:
        std, freedom = float(np.std(sums, ddof=1)), len(seeds) - 1
    else:  # as if the terms were independent: those of one seed are alike, so this is rather too much
        spreads = [of.spread or Spread(math.nan, 0) for of in rows]
        std = math.sqrt(sum((weight * each.std) ** 2 for weight, each in zip(weights, spreads, strict=True)))
        freedom = min(each.freedom for each in spreads)
    phase = any(of.phase for of in rows)
    return Margin(
        f"{what}; depends on the phase" if phase else what,
        float(np.mean(sums)),
        math.hypot(std, grain) / math.sqrt(len(seeds)),
        freedom,
        tuple(seeds),
        threshold,
        unit,
        "" if not beyond else beyond.pop() if len(beyond) == 1 else "unknown",
        max(of.longest for of in rows),
        max(of.of_paper for of in rows),
        phase,
        eventually,
    )


def alike(rows: Sequence[Numbers]) -> list[Numbers]:
    """All of one length: the one at which they have the most seeds in common, the longest among equals."""
    lengths = {rounds for of in rows for rounds in of.lengths}
    if len(lengths) < 2:
        return list(rows)
    rounds = common_length(lengths, [of.seeds_at for of in rows])
    return [of.at(rounds) for of in rows]
