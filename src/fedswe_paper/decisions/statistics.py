"""Numbers of single runs that claims are about, each at one model: the profile's, or one for all."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fedswe_paper.cell import PaperCell
from fedswe_paper.decisions.margin import Margin, Statistic, difference, numbers
from fedswe_paper.decisions.scope import Place
from fedswe_paper.decisions.verdict import Finding, Look, every
from fedswe_paper.measurements import Measurements, first_round_of
from fedswe_paper.recipes.labels import label
from fedswe_paper.results import FinishedRun
from fedswe_paper.selection import Row, Selection

CLOSE = 1.0  # points of accuracy; what the paper itself calls close (Section 7.2, on stationary SVHN)


def accuracy(output: str | None = None, part: str = "test") -> Statistic:
    """Mean of the last rounds, percent."""
    return Statistic(lambda run: run.score(f"{part}_accuracy", output))


def swing(output: str | None = None) -> Statistic:
    """Standard deviation of the test accuracy over the last rounds, points."""

    def of(run: FinishedRun) -> float:
        return math.nan if run.diverged else 100 * float(np.std(tail(run, column_of(run, output))))

    return Statistic(of, whole=True)


def peak(output: str | None = None) -> Statistic:
    """The highest test accuracy of the run, percent."""

    def of(run: FinishedRun) -> float:
        return math.nan if run.diverged else 100 * float(run.history[column_of(run, output)].max())

    return Statistic(of, whole=True)


def above(statistic: Statistic, target: float) -> Statistic:
    return replace(statistic, of=lambda run: statistic.of(run) - target)


def arrival(cell: PaperCell, target: float) -> Statistic:
    """The first evaluated round with a test accuracy of this fraction."""
    return Statistic(lambda run: first_round_of(run, target), whole=True, resolution=cell.experiment().evaluate.every)


def column_of(run: FinishedRun, output: str | None) -> str:
    return f"{output or run.cell.judged_by}_test_accuracy"


def tail(run: FinishedRun, column: str) -> list[float]:
    first = run.history.last["round"] - run.cell.experiment().evaluate.tail
    return [row[column] for row in run.history.rows if row["round"] > first]


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


def ahead(ours: Row, theirs: Row, output: str | None = None, above: float = 0.0) -> Look[Place]:
    """One method more accurate than another by more than so many points."""

    def look(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
        a, b = selection.cell(*place, ours), selection.cell(*place, theirs)
        return every([lead(measured, a, b, output, above)])

    return look


def smoother(measured: Measurements, ours: PaperCell, theirs: PaperCell, output: str | None = None) -> Margin | None:
    """By how much the other's accuracy varies more over the last rounds."""
    what = f"swing of {named(theirs, output)} minus that of {named(ours, output)}"
    return difference(what, numbers(measured, theirs, swing(output)), numbers(measured, ours, swing(output)))
