"""Numbers of single runs that claims are about, each at one model: the profile's, or one for all."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedswe_paper.cell import PaperCell
from fedswe_paper.measurements import first_round_of, one_phase, regular
from fedswe_paper.results import FinishedRun
from fedswe_paper.scale import SCALES


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
        column = run.column(output)
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
    highest = Statistic(lambda run: 100 * max(row[run.column(output)] for row in regular(run)), output)
    return replace(highest, one_phase=True)


def arrival(cell: PaperCell, target: float, output: str | None = None) -> Statistic:
    """The first round of the curve with a test accuracy of this fraction."""
    step = SCALES[cell.scale].period if cell.periodic else cell.experiment().evaluate.every
    return Statistic(lambda run: first_round_of(run, target, output), output, resolution=step, one_phase=True)


def second_half(run: FinishedRun, column: str) -> list[float]:
    return [row[column] for row in one_phase(run) if row["round"] > run.history.last["round"] / 2]


def tail(run: FinishedRun, column: str) -> list[float]:
    first = run.history.last["round"] - run.cell.experiment().evaluate.tail
    return [row[column] for row in run.history.rows if row["round"] > first]


def other_swings(runs: Sequence[FinishedRun], output: str | None) -> tuple[float, float]:
    """Means over runs in turns of groups: in one phase about the mean, and over all phases of the last rounds."""
    column = runs[0].column(output)
    level, phases = (100 * float(np.mean([np.std(f(run, column)) for run in runs])) for f in (second_half, tail))
    return level, phases


def last_error(run: FinishedRun) -> float:
    """Mean squared distance of the clients' models from their mean, over the last rounds."""
    return float(np.mean(tail(run, "consensus_clients")))


def first_error(run: FinishedRun) -> float:
    """Mean consensus error over the first tenth of the rounds (or of the first evaluation), without the start."""
    rows = run.history.rows[1:]  # at the start all models are equal
    until = max(run.history.last["round"] / 10, rows[0]["round"])
    return float(np.mean([row["consensus_clients"] for row in rows if row["round"] <= until]))


def growth(run: FinishedRun) -> float:
    """Logarithm of the error of the last rounds over the first."""
    return math.log10(last_error(run)) - math.log10(first_error(run))
