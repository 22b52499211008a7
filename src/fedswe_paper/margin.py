"""Margins: the number that decides a place of a claim, its standard error over seeds, and the threshold to exceed.

A margin is counted so that the paper's claim says it is above the threshold. It is decided where the threshold is
outside its confidence interval (Student's t, 95 % on both sides together), and undecided inside of it. All runs of a
margin have the same length, up to 1 %.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from fedswe.results.table import quantile
from fedswe_paper.cell import PaperCell
from fedswe_paper.measurements import Measurements, Statistic

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


@dataclass(frozen=True)
class Spread:
    """The standard deviation over seeds: of a row with enough of them, or pooled over such rows."""

    std: float
    freedom: int


def own_spread(measured: Measurements, cell: PaperCell, of: Statistic) -> Spread | None:
    """Of this row, where it has ENOUGH seeds: others of them than a margin has."""
    values = list(measured.values(cell, of).values())
    if len(values) < ENOUGH or not np.isfinite(values).all():
        return None
    return Spread(float(np.std(values, ddof=1)), len(values) - 1)


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
    lengths = [measured.longest(cell)]
    if of_method:
        others = {length for line in lines for length in measured.rounds(line)}
        lengths += sorted(others - set(lengths), reverse=True)
    for rounds in lengths:
        rows = [row for row in (replace(line, rounds=rounds) for line in lines) if not measured.at_chance(row)]
        spreads = [each for row in rows if (each := own_spread(measured, row, statistic))]
        if freedom := sum(each.freedom for each in spreads):
            return Spread(math.sqrt(sum(each.freedom * each.std**2 for each in spreads) / freedom), freedom)
    return None


def margin(
    measured: Measurements,
    what: str,
    *terms: tuple[float, PaperCell, Statistic],
    threshold: float = 0.0,
    unit: Unit = "points",
    eventually: bool = False,
    among: Collection[int] = (),
) -> Margin | None:
    """A weighted sum of numbers of several lines, seed by seed; None where no seed has all of them at one length.

    `among` are the seeds to be used; none: all.
    """
    cells = measured.alike([cell for _, cell, _ in terms], max(of.at_least for *_, of in terms))
    rows = [(cell, of) for cell, (*_, of) in zip(cells, terms, strict=True)]
    values, weights = [measured.values(*row) for row in rows], np.array([weight for weight, *_ in terms])
    seeds = sorted(seed for seed in set.intersection(*map(set, values)) if not among or seed in among)
    if not seeds:
        return None
    numbers = np.array([[by_seed[seed] for seed in seeds] for by_seed in values])
    never = np.isinf(numbers)
    signs = set((weights > 0)[never.any(axis=1)])
    beyond: Beyond = "unknown" if len(signs) > 1 else "at least" if True in signs else "at most" if signs else ""
    longest = np.array([measured.longest(cell) for cell in cells])
    sums = (weights[:, None] * np.where(never, longest[:, None], numbers)).sum(axis=0)
    size = math.sqrt(sum(weights**2))
    grain = max(of.resolution for _, of in rows) * size / math.sqrt(12)  # of a number rounded to this resolution
    if len(seeds) >= ENOUGH:
        std, freedom = float(np.std(sums, ddof=1)), len(seeds) - 1
    else:  # as if the terms were independent: those of one seed are alike, so this is rather too much
        spreads = [spread(measured, *row) for row in rows]
        std = math.sqrt(sum((weight * each.std) ** 2 for weight, each in zip(weights, spreads, strict=True)))
        freedom = min(each.freedom for each in spreads)
    phase = any(of.one_phase and cell.periodic and (of.output or cell.judged_by) == "server" for cell, of in rows)
    return Margin(
        f"{what}; depends on the phase" if phase else what,
        float(np.mean(sums)),
        math.hypot(std, grain) / math.sqrt(len(seeds)),
        freedom,
        tuple(seeds),
        threshold,
        unit,
        beyond,
        int(max(longest)),
        max(cell.full_rounds for cell in cells),
        phase,
        eventually,
    )


def spread(measured: Measurements, cell: PaperCell, of: Statistic) -> Spread:
    """Of the row itself, of the method's rows on the same data and kind of availability, or of all at its model."""
    known = measured, cell, of
    return own_spread(*known) or pooled(*known, of_method=True) or pooled(*known) or Spread(math.nan, 0)


# What one place says of a claim ----------------------------------------------------------------------------------
def combined(statuses: Sequence[Status], needed: int) -> Status:
    """Of what holds if at least so many of its parts hold."""
    if statuses.count("holds") >= needed:
        return "holds"
    if statuses.count("does not hold") > len(statuses) - needed:
        return "does not hold"
    return "diverged, undecided" if "diverged, undecided" in statuses else "undecided"


@dataclass(frozen=True)
class Finding:
    """What one place says."""

    status: Status
    margins: tuple[Margin, ...]
    note: str = ""  # other numbers of the place
    place: str = ""
    one_is_enough: bool = False  # of the margins
    bounded: Finding | None = None  # of runs with bounded gradients, where these diverged: no part of the verdict

    @property
    def deciding(self) -> Margin:
        """Of the margins that made the status the one with the least to spare; where one is enough, with the most."""
        made = [margin for margin in self.margins if margin.status == self.status] or self.margins
        return (max if self.one_is_enough else min)(made, key=lambda margin: margin.excess)


def at_least(needed: int, margins: Sequence[Margin | None], *notes: str) -> Finding | None:
    """So many of the margins must hold; None until all of them have been measured, unless one of them diverged."""
    known = tuple(margin for margin in margins if margin is not None)
    statuses: list[Status] = [margin.status for margin in known]
    missing = len(margins) - len(known)
    if not known or (missing and "diverged, undecided" not in statuses):
        return None
    status = combined(statuses + ["undecided"] * missing, needed)
    return Finding(status, known, "; ".join(filter(None, notes)), one_is_enough=needed < len(margins))


def every(margins: Sequence[Margin | None], *notes: str) -> Finding | None:
    return at_least(len(margins), margins, *notes)


def both(one: Finding | None, other: Finding | None) -> Finding | None:
    if one is None or other is None:
        there = one or other
        return there if there and there.status == "diverged, undecided" else None
    notes = "; ".join(filter(None, [one.note, other.note]))
    return Finding(combined([one.status, other.status], 2), one.margins + other.margins, notes)
