"""Margins: the number that decides a place of a claim, its standard error over seeds, and the threshold to exceed.

A margin is counted so that the paper's claim says it is above the threshold. It is decided where the threshold is
outside its confidence interval (Student's t, 95 % on both sides together), and undecided inside of it. All runs of a
margin have the same length, up to 1 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from fedswe.results.table import quantile
from fedswe_paper.cell import PaperCell
from fedswe_paper.measurements import Measurements, common_length
from fedswe_paper.results import FinishedRun

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
    def reach(self) -> float:
        """Half the width of the confidence interval."""
        return 0.0 if self.exact else quantile(self.freedom) * self.error

    @property
    def excess(self) -> float:
        """How far beyond the threshold, in standard errors: what margins are compared by."""
        if math.isnan(self.mean) or math.isnan(self.error):
            return 0.0
        gap = self.mean - self.threshold
        return gap / self.error if self.error else math.copysign(math.inf, gap) if gap else 0.0

    @property
    def status(self) -> Status:
        if math.isnan(self.mean):
            return "diverged, undecided"
        gap = self.mean - self.threshold
        if math.isnan(self.reach) or abs(gap) <= self.reach or self.beyond == "unknown" or self.phase:
            return "undecided"
        if self.beyond and (gap > 0) != (self.beyond == "at least"):
            return "undecided"
        if self.eventually and gap < 0 and self.rounds < self.of_paper:
            return "undecided"
        return "holds" if gap > 0 else "does not hold"


def exact(what: str, value: float, threshold: float, unit: Unit = "") -> Margin:
    """A margin that no run is needed for."""
    return Margin(what, value, 0.0, 0, (), threshold, unit)


@dataclass(frozen=True)
class Spread:
    """The standard deviation over seeds: of a row with enough of them, or pooled over such rows."""

    std: float
    freedom: int


@dataclass(frozen=True)
class Statistic:
    """A number of one run. NaN: the run diverged; infinite: never reached in its rounds."""

    of: Callable[[FinishedRun], float]
    whole: bool = False  # runs up to 1 % shorter than the longest of their line are left out
    resolution: float = 0.0  # the step in which the number is measured
    one_phase: bool = False  # read in one phase of the period, where groups take turns
    output: str | None = None  # the model it is of; None: the one that the profile judges the method by


@dataclass(frozen=True)
class Numbers:
    """A statistic of the runs of one line, by seed, and the spread to be expected of it."""

    values: Mapping[int, float]
    spread: Callable[[], Spread | None]  # asked where a margin has too few seeds
    resolution: float = 0.0
    longest: int = 0  # rounds of the runs: what "never" is beyond
    of_paper: int = 0  # rounds that the paper has, at this scale
    lengths: tuple[int, ...] = ()  # that the line was run for; none: its runs have been chosen
    seeds_at: Callable[[int], Collection[int]] = lambda _: ()  # that its runs of another length have
    at: Callable[[int], Numbers] | None = None  # the same of these
    phase: bool = False  # of a server model that was read in one phase of the period


def numbers(measured: Measurements, cell: PaperCell, statistic: Statistic) -> Numbers:
    runs = _runs(measured, cell, statistic)
    return Numbers(
        {run.cell.seed: statistic.of(run) for run in runs},
        lambda: _expected(measured, cell, statistic),
        statistic.resolution,
        max((run.cell.experiment().rounds for run in runs), default=0),
        replace(cell, rounds=0).experiment().rounds,
        tuple(measured.rounds(cell)),
        lambda rounds: [run.cell.seed for run in _runs(measured, replace(cell, rounds=rounds), statistic)],
        lambda rounds: numbers(measured, replace(cell, rounds=rounds), statistic),
        statistic.one_phase and cell.periodic and (statistic.output or cell.judged_by) == "server",
    )


def _runs(measured: Measurements, cell: PaperCell, statistic: Statistic) -> list[FinishedRun]:
    return measured.of(cell) if statistic.whole else measured.scored(cell)


def _expected(measured: Measurements, cell: PaperCell, statistic: Statistic) -> Spread | None:
    """Of the row itself, of the method's rows on the same data and kind of availability, or of all at its model."""
    own = _own(measured, cell, statistic) or pooled(measured, cell, statistic, of_method=True)
    return own or pooled(measured, cell, statistic)


def _own(measured: Measurements, cell: PaperCell, statistic: Statistic) -> Spread | None:
    """Of this row, where it has ENOUGH seeds: others of them than the margin has."""
    values = [statistic.of(run) for run in _runs(measured, cell, statistic)]
    if len(values) < ENOUGH or not np.isfinite(values).all():
        return None
    return Spread(float(np.std(values, ddof=1)), len(values) - 1)


def pooled(measured: Measurements, cell: PaperCell, statistic: Statistic, of_method: bool = False) -> Spread | None:
    """Of all rows with ENOUGH seeds that train, on the same data, under the same kind of availability, as long.

    All are judged by one model: a server model varies far more over seeds than a client mean. Methods differ in their
    spread, too: `of_method` takes the rows of the cell's own only, and where none is as long, those of another length.
    """
    judged, rounds = statistic.output or cell.judged_by, max(measured.rounds(cell), default=0)
    alike = [line for line in measured.lines if _kind(line) == _kind(cell)]
    alike = [line for line in alike if (statistic.output or line.judged_by) == judged]
    if not of_method:
        return _pooled_at(rounds, alike, measured, statistic)
    own = [line for line in alike if (line.algorithm, line.k) == (cell.algorithm, cell.k)]
    others = sorted({length for line in own for length in measured.rounds(line)} - {rounds}, reverse=True)
    return next((s for length in (rounds, *others) if (s := _pooled_at(length, own, measured, statistic))), None)


def _pooled_at(rounds: int, lines: Sequence[PaperCell], measured: Measurements, statistic: Statistic) -> Spread | None:
    kind = (replace(line, rounds=rounds) for line in lines)
    spreads = [s for line in kind if not measured.at_chance(line) and (s := _own(measured, line, statistic))]
    freedom = sum(spread.freedom for spread in spreads)
    squares = sum(spread.freedom * spread.std**2 for spread in spreads)
    return Spread(math.sqrt(squares / freedom), freedom) if freedom else None


def _kind(cell: PaperCell) -> tuple[str, bool, bool, bool]:
    """Data set; turns of groups or not; one probability for all clients or not; runs as in the paper or not."""
    return cell.dataset, cell.periodic, cell.p > 0, bool(cell.rate or cell.hold_out or cell.reading)


Term = tuple[float, Numbers]


def margin(
    what: str, terms: Sequence[Term], threshold: float = 0.0, unit: Unit = "points", eventually: bool = False
) -> Margin | None:
    """A weighted sum of numbers of several lines, seed by seed; None where no seed has all of them at one length."""
    terms = list(zip((weight for weight, _ in terms), alike([of for _, of in terms]), strict=True))
    seeds = sorted(set.intersection(*(set(of.values) for _, of in terms)))
    if not seeds:
        return None
    sums: list[float] = []
    beyond: set[Beyond] = set()
    for seed in seeds:
        total = 0.0
        for weight, of in terms:
            value = of.values[seed]
            if math.isinf(value):
                beyond.add("at least" if weight > 0 else "at most")
                value = of.longest
            total += weight * value
        sums.append(total)
    size = math.sqrt(sum(weight**2 for weight, _ in terms))
    grain = max(of.resolution for _, of in terms) * size / math.sqrt(12)  # of a number rounded to this resolution
    if len(seeds) >= ENOUGH:
        std, freedom = float(np.std(sums, ddof=1)), len(seeds) - 1
    else:
        std, freedom = _pooled_over(terms)
    phase = any(of.phase for _, of in terms)
    return Margin(
        f"{what}; depends on the phase" if phase else what,
        float(np.mean(sums)),
        math.hypot(std, grain) / math.sqrt(len(seeds)),
        freedom,
        tuple(seeds),
        threshold,
        unit,
        "" if not beyond else beyond.pop() if len(beyond) == 1 else "unknown",
        max(of.longest for _, of in terms),
        max(of.of_paper for _, of in terms),
        phase,
        eventually,
    )


def alike(rows: Sequence[Numbers]) -> list[Numbers]:
    """All of one length: the one at which they have the most seeds in common, the longest among equals."""
    lengths = {rounds for of in rows for rounds in of.lengths}
    if len(lengths) < 2:
        return list(rows)
    rounds = common_length(lengths, [of.seeds_at for of in rows])
    return [of.at(rounds) if of.at else of for of in rows]


def _pooled_over(terms: Sequence[Term]) -> tuple[float, int]:
    """As if the terms were independent: those of one seed are alike, so this is rather too much."""
    squares, freedom = 0.0, []
    for weight, of in terms:
        spread = of.spread()
        if spread is None:
            return math.nan, 0
        squares += (weight * spread.std) ** 2
        freedom.append(spread.freedom)
    return math.sqrt(squares), min(freedom)


def difference(
    what: str, ours: Numbers, theirs: Numbers, threshold: float = 0.0, unit: Unit = "points"
) -> Margin | None:
    return margin(what, [(1.0, ours), (-1.0, theirs)], threshold, unit)
