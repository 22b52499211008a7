"""The finished runs of one scale and profile, looked up by cell without its seed.

A run that diverged has no scores: they are NaN, and so is every mean that needs them. Of a line that was run for
several lengths the longest runs are meant, or those with the rounds that the cell names. Rows are compared at one
length, the one at which they have the most seeds in common.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fedswe_paper.cell import PaperCell
from fedswe_paper.results import FinishedRun
from fedswe_paper.scale import SCALES
from fedswe_paper.tables import Measured

_SAME = 0.99  # runs up to 1 % shorter are compared by their scores, but not drawn in one curve
CHANCE = 20.0  # percent: all data sets have ten classes, and SVHN's largest is 19.6 % of its test data


class Measurements:
    """Finished runs by line."""

    def __init__(self, finished: Iterable[FinishedRun], bounded: Iterable[FinishedRun] = ()) -> None:
        self._lines: dict[PaperCell, dict[int, list[FinishedRun]]] = defaultdict(lambda: defaultdict(list))
        for one in sorted(finished, key=lambda one: one.cell.experiment().rounds):
            self._lines[one.cell.line][one.cell.experiment().rounds].append(one)
        self.bounded = {one.cell: one for one in bounded}  # the same runs with a bound on the gradients

    @property
    def lines(self) -> list[PaperCell]:
        """Every line that has a run."""
        return list(self._lines)

    def lengths(self, cell: PaperCell) -> dict[int, list[FinishedRun]]:
        """The runs of a line by their number of rounds, the shortest first."""
        return self._lines.get(cell.line, {})

    def alike(self, cells: Sequence[PaperCell], at_least: float = _SAME) -> list[PaperCell]:
        """The lines with the same rounds for all, what rows are compared at; cells that all name theirs keep them.

        Of the lengths that were run, the one at which the lines with runs have the most seeds in common; among equals
        the longest. Where no seed is common, the length that most lines have. 0 where nothing was run.
        """
        if all(cell.rounds for cell in cells):
            return list(cells)
        run = [cell for cell in cells if self.rounds(cell)]

        def worth(rounds: int) -> tuple[int, int, int]:
            seeds = [{one.cell.seed for one in self.of(replace(cell, rounds=rounds), at_least)} for cell in run]
            return len(set.intersection(*seeds)), sum(map(bool, seeds)), rounds

        rounds = max((rounds for cell in run for rounds in self.rounds(cell)), key=worth, default=0)
        return [replace(cell, rounds=rounds) for cell in cells]

    def rounds(self, cell: PaperCell) -> list[int]:
        """The lengths of the runs of a line; of those that are meant where the cell names its rounds."""
        return [n for n in self.lengths(cell) if not cell.rounds or _SAME * cell.rounds <= n <= cell.rounds]

    def longest(self, cell: PaperCell) -> int:
        return max(self.rounds(cell), default=0)

    def scored(self, cell: PaperCell) -> list[FinishedRun]:
        """All seeds of a line, in order, also of runs that are a little shorter."""
        return self.of(cell, at_least=_SAME)

    def of(self, cell: PaperCell, at_least: float = 1.0) -> list[FinishedRun]:
        """All seeds of a line, in order: of the longest runs, or of those with at least this share of the rounds."""
        enough = [rounds for rounds in self.rounds(cell) if rounds >= at_least * self.longest(cell)]
        found = {one.cell.seed: one for n in enough for one in self.lengths(cell)[n]}  # the longest of a seed is last
        return [found[seed] for seed in sorted(found)]

    def values(self, cell: PaperCell, statistic: Statistic) -> dict[int, float]:
        """By seed."""
        return {run.cell.seed: statistic(run) for run in self.of(cell, statistic.at_least)}

    def scores(self, cell: PaperCell, column: str, output: str | None = None) -> dict[int, float]:
        """Percent by seed; NaN for a run that diverged."""
        return {f.cell.seed: f.score(column, output) for f in self.scored(cell)}

    def score(self, cell: PaperCell, column: str, output: str | None = None) -> Measured | None:
        """Mean and spread over seeds, percent; NaN if a run diverged."""
        return summary(list(self.scores(cell, column, output).values()))

    def common_seeds(self, cells: Iterable[PaperCell]) -> list[int]:
        """Those that every line with a run has: rows are ranked with these."""
        seeds = [{run.cell.seed for run in runs} for cell in cells if (runs := self.scored(cell))]
        return sorted(set.intersection(*seeds)) if seeds else []

    def rounds_to(self, cell: PaperCell, target: float) -> dict[int, float]:
        """By seed, the first round whose test accuracy reaches the target."""
        return {f.cell.seed: first_round_of(f, target) for f in self.of(cell)}

    def at_chance(self, cell: PaperCell) -> bool:
        """Whether a line was measured and did not train: at none of its two models is it above chance at its end."""
        scores = [self.score(cell, "test_accuracy", output) for output in ("server", "client_mean")]
        return all(score is not None and score.mean <= CHANCE for score in scores)


def first_round_of(run: FinishedRun, target: float, output: str | None = None) -> float:
    """The first round of the curve with this test accuracy: infinite for never, NaN where the run diverged before.

    In turns of groups the curve has one phase of the period, as the paper draws it.
    """
    reached = run.history["round"][regular(run) & (run.curve(run.column(output)) >= target)]
    never = math.nan if run.diverged else math.inf
    return float(reached[0]) if len(reached) else never


def regular(run: FinishedRun) -> npt.NDArray[np.bool_]:
    """Which evaluations are at equal distances: in the last rounds there are more, unlike in the paper's Table 7.

    An unsteady model that is looked at more often arrives earlier.
    """
    when, rounds = run.cell.experiment().evaluate, run.history["round"]
    return np.asarray(one_phase(run) & ((rounds <= rounds[-1] - when.tail) | (rounds % when.every == 0)))


def one_phase(run: FinishedRun) -> npt.NDArray[np.bool_]:
    """All evaluations; in turns of groups those at the end of a period, all in one phase."""
    period = SCALES[run.cell.scale].period if run.cell.periodic else 1
    return np.asarray(run.history["round"] % period == 0)


def all_or_nan(values: Iterable[float]) -> list[float]:
    """NaN for all where one diverged: the mean of the others would be that of a selection."""
    found = list(values)
    return [math.nan] * len(found) if any(map(math.isnan, found)) else found


def summary(values: list[float]) -> Measured | None:
    if not values:
        return None
    std = float(np.std(values, ddof=1)) if len(values) > 1 and np.isfinite(values).all() else None
    return Measured(float(np.mean(values)), std, len(values))


# Numbers of single runs that claims are about, each at one model: the profile's, or one for all -------------------
@dataclass(frozen=True)
class Statistic:
    """A number of a run that did not diverge; infinite: never reached in its rounds."""

    of: Callable[[FinishedRun], float]
    output: str | None = None  # the model it is of; None: the one that the profile judges the method by
    at_least: float = 1.0  # share of the rounds of the longest run of its line that a run must have
    resolution: float = 0.0  # the step in which the number is measured
    one_phase: bool = False  # read in one phase of the period, where groups take turns

    def __call__(self, run: FinishedRun) -> float:
        """NaN where the run diverged, whatever it reached before: no verdict rests on it."""
        return math.nan if run.diverged else self.of(run)


def accuracy(output: str | None = None, part: str = "test") -> Statistic:
    """Mean of the last rounds, percent."""
    return Statistic(lambda run: run.score(f"{part}_accuracy", output), output, at_least=_SAME)


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
        values = second_half(run, column)
        if len(values) < 3:
            return math.nan
        at = np.arange(len(values))
        return 100 * float(np.std(values - np.polyval(np.polyfit(at, values, 1), at)))

    return Statistic(of, output)


def peak(output: str | None = None) -> Statistic:
    """The highest test accuracy of the regular evaluations, percent; in turns of groups in one phase of the period."""
    return Statistic(lambda run: 100 * max(run.history[run.column(output)][regular(run)]), output, one_phase=True)


def arrival(cell: PaperCell, target: float, output: str | None = None) -> Statistic:
    """The first round of the curve with a test accuracy of this fraction."""
    step = SCALES[cell.scale].period if cell.periodic else cell.experiment().evaluate.every
    return Statistic(lambda run: first_round_of(run, target, output), output, resolution=step, one_phase=True)


def second_half(run: FinishedRun, column: str) -> npt.NDArray[np.float64]:
    rounds = run.history["round"]
    return np.asarray(run.history[column][one_phase(run) & (rounds > rounds[-1] / 2)])


def tail(run: FinishedRun, column: str) -> npt.NDArray[np.float64]:
    rounds = run.history["round"]
    return np.asarray(run.history[column][rounds > rounds[-1] - run.cell.experiment().evaluate.tail])


def last_error(run: FinishedRun) -> float:
    """Mean squared distance of the clients' models from their mean, over the last rounds."""
    return float(np.mean(tail(run, "consensus_clients")))


def first_error(run: FinishedRun) -> float:
    """Mean consensus error over the first tenth of the rounds (or of the first evaluation), without the start."""
    rounds, errors = (run.history[name][1:] for name in ("round", "consensus_clients"))  # equal models at the start
    return float(np.mean(errors[rounds <= max(rounds[-1] / 10, rounds[0])]))


def growth(run: FinishedRun) -> float:
    """Logarithm of the error of the last rounds over the first."""
    return math.log10(last_error(run)) - math.log10(first_error(run))
