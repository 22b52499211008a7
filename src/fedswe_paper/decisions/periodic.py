"""Claims about Figures 6 to 12: two groups that take turns."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from fedswe_paper.cell import PaperCell
from fedswe_paper.decisions.margins import CLOSE, BySeed, accuracy, ahead, lead, margin, signed, smallest
from fedswe_paper.decisions.scope import CIFAR10_TURNS, SVHN_TURNS, TURNS, Place
from fedswe_paper.decisions.sine import SLOWER, rounds
from fedswe_paper.decisions.verdict import Decide, Finding, Look, over
from fedswe_paper.measurements import Measurements, summary
from fedswe_paper.recipes.labels import label
from fedswe_paper.recipes.periodic import BASELINES, sweep
from fedswe_paper.results import FinishedRun
from fedswe_paper.selection import Selection
from fedswe_paper.tables import Measured

_SMOOTH = ("gfedavg", "fedvarp")  # the smoothest of the baselines, the paper says


def _fedswe(selection: Selection, place: Place, k: float) -> PaperCell:
    return selection.cell(*place, ("fedswe", k))


def _baselines(selection: Selection, place: Place) -> list[PaperCell]:
    return [selection.cell(*place, row) for row in BASELINES]


def _tail(run: FinishedRun, column: str) -> list[float]:
    first = run.history.last["round"] - run.cell.experiment().evaluate.tail
    return [row[column] for row in run.history.rows if row["round"] > first]


def _swing(measured: Measurements, cell: PaperCell) -> BySeed:
    """Standard deviation of the judged model's test accuracy over the last rounds, points, by seed."""
    column = f"{cell.judged_by}_test_accuracy"
    return {run.cell.seed: 100 * float(np.std(_tail(run, column))) for run in measured.of(cell)}


def _peak(measured: Measurements, cell: PaperCell) -> BySeed:
    """The highest test accuracy of the run, percent, by seed."""
    column = f"{cell.judged_by}_test_accuracy"
    return {run.cell.seed: 100 * float(run.history[column].max()) for run in measured.of(cell)}


# Figure 6 -----------------------------------------------------------------------------------------------------
def _consensus(run: FinishedRun, first: bool) -> float:
    """Mean error over the first tenth of the rounds (or at the first evaluation), or over the last rounds."""
    rows = run.history.rows[1:]  # at the start all models are equal
    until = max(run.history.last["round"] / 10, rows[0]["round"])
    early = [row["consensus_clients"] for row in rows if row["round"] <= until]
    error = float(np.mean(early if first else _tail(run, "consensus_clients")))
    return error if math.isfinite(error) else math.inf  # models that diverged have no consensus


def _fails_at_zero(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
    runs = measured.of(_fedswe(selection, place, 0.0))
    growth = summary([_consensus(run, first=False) / _consensus(run, first=True) for run in runs])
    if growth is None:
        return None
    spread = "" if growth.std is None else f" ± {growth.std:.2g}"
    numbers = f"{growth.mean:.3g}{spread} times the error of the first tenth of the rounds"
    return Finding(growth.mean > 1, f"{numbers}, {_seeds(growth.seeds)}")


def _improves_with_k(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
    errors = {
        cell.k: {run.cell.seed: _consensus(run, first=False) for run in measured.of(cell)}
        for cell in sweep(selection, *place)
    }
    found = {k: mean.mean for k, by_seed in errors.items() if (mean := summary(list(by_seed.values()))) is not None}
    steps = [margin(errors[b], errors[a]) for a, b in pairwise(sorted(found))]
    known = [step.mean < 0 for step in steps if step is not None]
    if not known or len(known) < len(steps):
        return None
    listed = ", ".join(f"k = {k:g} {found[k]:.3g}" for k in sorted(found))
    return Finding(all(known), f"error {listed}; {sum(known)} of {len(known)} steps down, paired by seed")


# Figures 7 and 10 -----------------------------------------------------------------------------------------------
def _smoother(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
    """Less swing than k = 0 and than most of the baselines."""
    ours = _swing(measured, _fedswe(selection, place, 100.0))
    plain = margin(ours, _swing(measured, _fedswe(selection, place, 0.0)))
    others = [margin(ours, _swing(measured, cell)) for cell in _baselines(selection, place)]
    known = [other.mean < 0 for other in others if other is not None]
    mean = summary(list(ours.values()))
    if mean is None or plain is None or len(known) < len(others):
        return None
    numbers = f"swings by {mean.mean:.1f} points, {signed(plain)} against k = 0; less than {sum(known)} of 6 baselines"
    return Finding(plain.mean < 0 and sum(known) > len(others) / 2, numbers)


def _known_peaks_highest(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
    peaks = {cell.algorithm: _peak(measured, cell) for cell in _baselines(selection, place)}
    known = peaks.pop("fedavg_known")
    found = smallest({label(selection.cell(*place, (name, 0.0))): margin(known, peak) for name, peak in peaks.items()})
    return None if found is None else Finding(found[1].mean > 0, f"{signed(found[1])} against {found[0]}, the closest")


def _smooth_but_low(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
    """Both swing less than each of the other four, and peak below FedAvg with known probabilities."""
    cells = {cell.algorithm: cell for cell in _baselines(selection, place)}
    swings = {name: summary(list(_swing(measured, cell).values())) for name, cell in cells.items()}
    known = {name: swing.mean for name, swing in swings.items() if swing is not None}
    top = _peak(measured, cells["fedavg_known"])
    peaks = [margin(_peak(measured, cells[name]), top) for name in _SMOOTH]
    below = [peak for peak in peaks if peak is not None]
    if len(known) < len(cells) or len(below) < len(peaks):
        return None
    smooth = max(known[name] for name in _SMOOTH) < min(known[name] for name in known if name not in _SMOOTH)
    listed = ", ".join(f"{label(cells[name])} {known[name]:.1f}" for name in sorted(known, key=known.__getitem__))
    numbers = f"swings {listed}; peaks {' and '.join(map(signed, below))} against known p"
    return Finding(smooth and all(peak.mean < 0 for peak in below), numbers)


def _beats_baselines(output: str | None) -> Look[Place]:
    def look(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
        found = lead(measured, _fedswe(selection, place, 100.0), _baselines(selection, place), output)
        if found is None:
            return None
        return Finding(found[1].mean > 0, f"{signed(found[1])} against {found[0]}, the closest")

    return look


def _matches_known(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
    """At its end not more than CLOSE below the other's peak, and with less swing."""
    ours, known = _fedswe(selection, place, 100.0), selection.cell(*place, ("fedavg_known", 0.0))
    below = margin(accuracy(measured, ours), _peak(measured, known))
    swing = margin(_swing(measured, ours), _swing(measured, known))
    if below is None or swing is None:
        return None
    numbers = f"{signed(below)} against the peak of known p; swing {signed(swing)} against it"
    return Finding(below.mean > -CLOSE and swing.mean < 0, numbers)


# Figures 8, 9, 11 and 12 ------------------------------------------------------------------------------------------
def _peaks_near_m(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
    """The best k between m/2 and 2m, and ahead of both ends."""
    scores = {cell.k: accuracy(measured, cell) for cell in sweep(selection, *place)}
    means = {k: mean for k, by_seed in scores.items() if (mean := summary(list(by_seed.values()))) is not None}
    if len(means) < len(scores):
        return None
    best, m = max(means, key=lambda k: means[k].mean), selection.scale.clients
    ends = [margin(scores[best], scores[end]) for end in (min(means), max(means))]
    gains = [end for end in ends if end is not None]
    if len(gains) < len(ends):
        return None
    listed = ", ".join(f"k = {k:g} {means[k].mean:.1f}" for k in sorted(means))
    inside = m / 2 <= best <= 2 * m and all(gain.mean > 0 for gain in gains)
    numbers = f"best at k = {best:g}, {signed(gains[0])} against k = {min(means):g} and {signed(gains[1])} against"
    return Finding(inside, f"{numbers} k = {max(means):g}; {listed}")


def _shrink_then_grow(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
    """Fewest rounds strictly between the ends; the largest k needs SLOWER times as many, or never gets there."""
    target = selection.scale.target
    found: dict[float, Measured] = {}
    for cell in sweep(selection, *place):
        mean = summary(list(measured.rounds_to(cell, target).values()))
        if mean is None:
            return None
        found[cell.k] = mean
    first, *_, last = sorted(found)
    best = min(found, key=lambda k: found[k].mean)
    shrinks = found[best].mean < found[first].mean
    grows = found[best].mean < math.inf and found[last].mean >= SLOWER * found[best].mean
    listed = ", ".join(f"k = {k:g} {rounds(found[k].mean)}" for k in sorted(found))
    return Finding(shrinks and grows, f"rounds to {100 * target:.0f} %: {listed}, {_seeds(found[first].seeds)}")


def _seeds(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"


TURNS_DECISIONS: dict[str, Decide] = {
    "consensus-fails-at-zero": over(TURNS, _fails_at_zero),
    "consensus-improves-with-k": over(TURNS, _improves_with_k),
    "k100-smoother": over(TURNS, _smoother),
    "known-peaks-highest-on-svhn": over(SVHN_TURNS, _known_peaks_highest),
    "varp-and-gfedavg-smooth-but-low": over(SVHN_TURNS, _smooth_but_low),
    "k100-beats-baselines": over(TURNS, _beats_baselines(None)),
    "k100-beats-baselines-same-model": over(TURNS, _beats_baselines("client_mean")),
    "k100-matches-peak-of-known-svhn": over(SVHN_TURNS, _matches_known),
    "k100-beats-known-cifar10": over(CIFAR10_TURNS, ahead(("fedswe", 100.0), ("fedavg_known", 0.0))),
    "accuracy-peaks-near-m": over(TURNS, _peaks_near_m),
    "rounds-shrink-then-grow": over(TURNS, _shrink_then_grow),
}
