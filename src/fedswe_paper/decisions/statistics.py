"""Numbers of single runs that claims are about, each at one model: the profile's, or one for all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedswe_paper.cell import PaperCell
from fedswe_paper.decisions.margin import Margin, Statistic, difference, numbers
from fedswe_paper.decisions.scope import Place
from fedswe_paper.decisions.verdict import Finding, Look, every
from fedswe_paper.measurements import Measurements, first_round_of, one_phase, regular
from fedswe_paper.recipes.labels import label, seeds_named
from fedswe_paper.results import FinishedRun
from fedswe_paper.scale import SCALES
from fedswe_paper.selection import Row, Selection

CLOSE = 1.0  # points of accuracy; what the paper itself calls close (Section 7.2, on stationary SVHN)


def accuracy(output: str | None = None, part: str = "test") -> Statistic:
    """Mean of the last rounds, percent."""
    return Statistic(lambda run: run.score(f"{part}_accuracy", output), output=output)


def swing(output: str | None = None) -> Statistic:
    """Standard deviation of the test accuracy, points: over the last rounds.

    In turns of groups about a straight line through the second half of the run, for a curve that still rises does not
    fluctuate by that, and in one phase of the period: over all phases it would measure the alternation of the groups,
    which the paper's figures, sampled once a period, do not show.
    """

    def of(run: FinishedRun) -> float:
        if run.diverged:
            return math.nan
        column = column_of(run, output)
        return 100 * (about_a_line(second_half(run, column)) if run.cell.periodic else float(np.std(tail(run, column))))

    return Statistic(of, whole=True, output=output)


def second_half(run: FinishedRun, column: str) -> list[float]:
    return [row[column] for row in one_phase(run) if row["round"] > run.history.last["round"] / 2]


def other_swings(measured: Measurements, cells: Sequence[PaperCell], output: str | None = None) -> str:
    """A note beside the swing in turns of groups: with the trend of the curve, and over all phases."""
    shown, alike = [], measured.alike(cells)
    seeds = measured.common_seeds(alike)
    for cell in alike:
        finite = [run for run in measured.of(cell) if run.cell.seed in seeds and not run.diverged]
        if finite:
            column = column_of(finite[0], output)
            level = 100 * np.mean([np.std(second_half(run, column)) for run in finite])
            phases = 100 * np.mean([np.std(tail(run, column)) for run in finite])
            shown.append(f"{named(cell, output)} {level:.1f} and {phases:.1f}")
    about = "other swings, in one phase about the mean and over all phases of the last rounds"
    return f"{about} ({alike[0].rounds} rounds, {seeds_named(seeds)}): {', '.join(shown)}" if shown else ""


def about_a_line(values: Sequence[float]) -> float:
    """NaN where too few values leave no residual."""
    if len(values) < 3:
        return math.nan
    rounds = np.arange(len(values))
    return float(np.std(values - np.polyval(np.polyfit(rounds, values, 1), rounds)))


def peak(output: str | None = None) -> Statistic:
    """The highest test accuracy of the regular evaluations, percent; in turns of groups in one phase of the period."""

    def of(run: FinishedRun) -> float:
        return math.nan if run.diverged else 100 * max(row[column_of(run, output)] for row in regular(run))

    return Statistic(of, whole=True, one_phase=True, output=output)


def above(statistic: Statistic, target: float) -> Statistic:
    return replace(statistic, of=lambda run: statistic.of(run) - target)


def arrival(cell: PaperCell, target: float, output: str | None = None) -> Statistic:
    """The first round of the curve with a test accuracy of this fraction; no verdict rests on a run that diverged."""
    step = SCALES[cell.scale].period if cell.periodic else cell.experiment().evaluate.every

    def of(run: FinishedRun) -> float:
        return math.nan if run.diverged else first_round_of(run, target, output)

    return Statistic(of, whole=True, resolution=step, one_phase=True, output=output)


def column_of(run: FinishedRun, output: str | None) -> str:
    return f"{output or run.cell.judged_by}_test_accuracy"


def tail(run: FinishedRun, column: str) -> list[float]:
    first = run.history.last["round"] - run.cell.experiment().evaluate.tail
    return [row[column] for row in run.history.rows if row["round"] > first]


def training(measured: Measurements, cells: Sequence[PaperCell]) -> tuple[list[PaperCell], str]:
    """The rows that are not at chance, and a note on the others: no claim is decided by a row that did not train."""
    left_out = [cell for cell in cells if measured.at_chance(cell)]
    note = f"left out, at chance: {', '.join(dict.fromkeys(map(label, left_out)))}" if left_out else ""
    return [cell for cell in cells if cell not in left_out], note


def named(cell: PaperCell, output: str | None = None) -> str:
    """The method and the model it is judged by."""
    return f"{label(cell)} ({(output or cell.judged_by).replace('_', ' ')})"


def lead(
    measured: Measurements, ours: PaperCell, theirs: PaperCell, output: str | None = None, above: float = 0.0
) -> Margin | None:
    """How far ahead in points of test accuracy, both at one model or each at its own."""
    what = f"{named(ours, output)} minus {named(theirs, output)}"
    statistic = accuracy(output)
    return difference(what, numbers(measured, ours, statistic), numbers(measured, theirs, statistic), above)


def ahead(ours: Row, theirs: Row, above: float, output: str | None) -> Look[Place]:
    """One method more accurate than another by more than so many points."""

    def look(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
        a, b = selection.cell(*place, ours), selection.cell(*place, theirs)
        return every([lead(measured, a, b, output, above)])

    return look


def smoother(measured: Measurements, ours: PaperCell, theirs: PaperCell, output: str | None = None) -> Margin | None:
    """By how much more the other's accuracy swings."""
    what = f"swing of {named(theirs, output)} minus that of {named(ours, output)}"
    return difference(what, numbers(measured, theirs, swing(output)), numbers(measured, ours, swing(output)))
