"""Claims about Figures 6 to 12: two groups that take turns."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np

from fedswe_paper.cell import PaperCell
from fedswe_paper.decisions.margin import Margin, Numbers, Statistic, alike, difference, margin, numbers
from fedswe_paper.decisions.scope import CIFAR10_TURNS, SVHN_TURNS, TURNS, Place
from fedswe_paper.decisions.sine import SLOWER, in_time
from fedswe_paper.decisions.statistics import (
    CLOSE,
    accuracy,
    ahead,
    arrival,
    lead,
    named,
    other_swings,
    peak,
    smoother,
    swing,
    tail,
    training,
)
from fedswe_paper.decisions.verdict import MODELS, Decide, Finding, Look, at_each_model, at_least, both, every, over
from fedswe_paper.measurements import Measurements
from fedswe_paper.recipes.labels import seeds_named
from fedswe_paper.recipes.periodic import BASELINES, sweep
from fedswe_paper.results import FinishedRun
from fedswe_paper.selection import AIDED, Row, Selection

_SMOOTH = ("gfedavg", "fedvarp")  # the smoothest of the baselines, the paper says
_KNOWN: Row = ("fedavg_known", 0.0)
_K0: Row = ("fedswe", 0.0)
_K100: Row = ("fedswe", 100.0)


def _fedswe(selection: Selection, place: Place, k: float) -> PaperCell:
    return selection.cell(*place, ("fedswe", k))


def _baselines(selection: Selection, place: Place) -> list[PaperCell]:
    return [selection.cell(*place, row) for row in BASELINES]


# Figure 6 -----------------------------------------------------------------------------------------------------
def _last_error(run: FinishedRun) -> float:
    """Logarithm of the mean consensus error over the last rounds."""
    return math.nan if run.diverged else math.log10(float(np.mean(tail(run, "consensus_clients"))))


def _growth(run: FinishedRun) -> float:
    """By how much the error of the last rounds exceeds that of the first tenth (or of the first evaluation)."""
    rows = run.history.rows[1:]  # at the start all models are equal
    until = max(run.history.last["round"] / 10, rows[0]["round"])
    early = [row["consensus_clients"] for row in rows if row["round"] <= until]
    return _last_error(run) - math.log10(float(np.mean(early)))


_ERROR = Statistic(_last_error, whole=True)


def _decays(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
    """With every k > 0."""
    growth = Statistic(_growth, whole=True)
    what = "consensus error, first tenth of the rounds over the last rounds, logarithm"
    interpolated = [cell for cell in sweep(selection, *place) if cell.k > 0]
    return every(
        [
            margin(f"k = {c.k:g}: {what}", [(-1.0, numbers(measured, c, growth))], unit="log10", eventually=True)
            for c in interpolated
        ]
    )


def _fails_at_zero(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
    cell = _fedswe(selection, place, 0.0)
    what = "consensus error of k = 0, last rounds over the first tenth, logarithm"
    return every([margin(what, [(1.0, numbers(measured, cell, Statistic(_growth, whole=True)))], unit="log10")])


def _improves_with_k(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
    errors = {cell.k: numbers(measured, cell, _ERROR) for cell in sweep(selection, *place)}
    steps = [
        difference(f"consensus error, k = {a:g} over k = {b:g}, logarithm", errors[a], errors[b], unit="log10")
        for a, b in pairwise(sorted(errors))
    ]
    return every(steps)


# Figures 7 and 10 -----------------------------------------------------------------------------------------------
def _smoother(output: str | None) -> Look[Place]:
    """Less swing than k = 0 and than most of the baselines."""

    def look(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
        ours, plain = (_fedswe(selection, place, k) for k in (100.0, 0.0))
        rivals, note = training(measured, _baselines(selection, place))
        others = [smoother(measured, ours, cell, output) for cell in rivals]
        beside = other_swings(measured, [ours, plain, *rivals], output)
        return both(
            every([smoother(measured, ours, plain, output)], beside), at_least(len(others) // 2 + 1, others, note)
        )

    return look


def _smoother_with_k(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
    cells = sweep(selection, *place)
    steps = [smoother(measured, b, a, "server") for a, b in pairwise(cells)]
    return every(steps, other_swings(measured, cells, "server"))


def _fluctuates_like_baselines(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
    """Between half the mean swing of the baselines and twice that."""
    cell, (others, note) = _fedswe(selection, place, 0.0), training(measured, _baselines(selection, place))
    ours = numbers(measured, cell, swing("server"))
    theirs = [numbers(measured, other, swing("server")) for other in others]

    def times(factor: float) -> list[tuple[float, Numbers]]:
        return [(factor / len(theirs), each) for each in theirs]

    name, mean = f"swing of {named(cell, 'server')}", "the mean of the baselines (server)"
    low = margin(f"{name} minus half {mean}", [(1.0, ours), *times(-0.5)])
    high = margin(f"twice {mean} minus {name}", [(-1.0, ours), *times(2.0)])
    beside = other_swings(measured, [cell, *others], "server")
    return every([low, high], "; ".join(filter(None, [beside, note])))


def _known_peaks_highest(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
    rivals, note = training(measured, _baselines(selection, place))
    known = selection.cell(*place, _KNOWN)
    return every([_higher_peak(measured, known, other) for other in rivals if other != known], note)


def _higher_peak(measured: Measurements, ours: PaperCell, theirs: PaperCell) -> Margin | None:
    what = f"peak of {named(ours)} minus that of {named(theirs)}"
    return difference(what, numbers(measured, ours, peak()), numbers(measured, theirs, peak()))


def _smooth_but_low(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
    """Both swing less than each of the other four, and peak below FedAvg with known probabilities."""
    cells, note = training(measured, _baselines(selection, place))
    smooth = [cell for cell in cells if cell.algorithm in _SMOOTH]
    swings = [smoother(measured, a, b) for a in smooth for b in cells if b not in smooth]
    peaks = [_higher_peak(measured, selection.cell(*place, _KNOWN), cell) for cell in smooth]
    beside = other_swings(measured, cells)
    return every([*swings, *peaks], "; ".join(filter(None, [beside, note])))


def _beats_baselines(output: str | None) -> Look[Place]:
    def look(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
        ours = _fedswe(selection, place, 100.0)
        rivals, note = training(measured, _baselines(selection, place))
        return every([lead(measured, ours, rival, output) for rival in rivals], note)

    return look


def _matches_known(output: str | None) -> Look[Place]:
    """At its end not more than CLOSE below the other's peak, and with less swing."""

    def look(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
        ours, known = _fedswe(selection, place, 100.0), selection.cell(*place, _KNOWN)
        what = f"{named(ours, output)} at the end minus the peak of {named(known, output)}"
        ends, peaks = numbers(measured, ours, accuracy(output)), numbers(measured, known, peak(output))
        margins = [difference(what, ends, peaks, -CLOSE), smoother(measured, ours, known, output)]
        return every(margins, other_swings(measured, [ours, known], output))

    return look


# Figures 8, 9, 11 and 12: a ranking, so all k are looked at with the seeds that all of them have ---------------------
def _ranked(measured: Measurements, cells: list[PaperCell], statistic: Statistic) -> dict[float, Numbers]:
    """By k, all with the same rounds and seeds; empty where no seed has all of them."""
    rows = alike([numbers(measured, cell, statistic) for cell in cells])
    found = {cell.k: each for cell, each in zip(cells, rows, strict=True)}
    common = set.intersection(*(set(each.values) for each in found.values()))
    if not common:
        return {}
    return {
        k: replace(each, values={seed: each.values[seed] for seed in common}, lengths=()) for k, each in found.items()
    }


def _mean(of: Numbers) -> float:
    return float(np.mean(list(of.values.values())))


def _listed(ranked: dict[float, Numbers], digits: int) -> str:
    means = {k: _mean(of) for k, of in ranked.items()}
    shown = ", ".join(f"k = {k:g} {'NaN' if math.isnan(mean) else f'{mean:.{digits}f}'}" for k, mean in means.items())
    seeds = sorted(next(iter(ranked.values())).values)
    return f"{shown} ({seeds_named(seeds)})"


def _near_m(selection: Selection, ranked: dict[float, Numbers]) -> list[float]:
    """The k between m/2 and 2m."""
    m = selection.scale.clients
    return [k for k in ranked if m / 2 <= k <= 2 * m]


def _peaks_near_m(output: str | None) -> Look[Place]:
    """The best k near m is more accurate than every k that is not."""

    def look(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
        cells = sweep(selection, *place)
        ranked = _ranked(measured, cells, accuracy(output))
        near = _near_m(selection, ranked)
        if not near:
            return None
        best = max(near, key=lambda k: math.inf if math.isnan(_mean(ranked[k])) else _mean(ranked[k]))
        others = [k for k in ranked if k not in near]
        model = MODELS[output or cells[0].judged_by]
        margins = [difference(f"k = {best:g} minus k = {k:g} ({model})", ranked[best], ranked[k]) for k in others]
        return every(margins, _listed(ranked, 1))

    return look


def _shrink_then_grow(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
    """The best k near m needs fewer rounds than the smallest; the largest needs more than SLOWER times as many."""
    target, cells = selection.scale.target, sweep(selection, *place)
    ranked = _ranked(measured, cells, arrival(cells[0], target))
    near = _near_m(selection, ranked)
    if not near:
        return None
    first, last = min(ranked), max(ranked)
    best = min(near, key=lambda k: -1.0 if math.isnan(_mean(ranked[k])) else _mean(ranked[k]))
    what = f"rounds of k = {first:g} minus those of k = {best:g}"
    fewer = difference(what, ranked[first], ranked[best], unit="rounds")
    more = margin(
        f"rounds of k = {last:g} minus {SLOWER:g} times those of k = {best:g}",
        [(1.0, ranked[last]), (-SLOWER, ranked[best])],
        unit="rounds",
    )
    return every([fewer, more], f"rounds to {100 * target:.0f} %: {_listed(ranked, 0)}")


def _not_slower(output: str | None) -> Look[Place]:
    """Than the baselines without memory or known statistics."""

    def look(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
        unaided = [cell for cell in _baselines(selection, place) if cell.algorithm not in AIDED]
        rivals, note = training(measured, unaided)
        pairs = [(_fedswe(selection, place, k), rival) for k in (0.0, 100.0) for rival in rivals]
        target = selection.scale.target
        return every([in_time(measured, *pair, target, SLOWER, output) for pair in pairs], note)

    return look


TURNS_DECISIONS: dict[str, Decide] = {
    "consensus-fails-at-zero": over(TURNS, _fails_at_zero),
    "consensus-decays-with-interpolation": over(TURNS, _decays),
    "consensus-improves-with-k": over(TURNS, _improves_with_k),
    **at_each_model("k100-smoother", TURNS, _smoother),
    "smoother-with-k": over(TURNS, _smoother_with_k),
    "k0-fluctuates-like-the-baselines": over(TURNS, _fluctuates_like_baselines),
    "known-peaks-highest-on-svhn": over(SVHN_TURNS, _known_peaks_highest),
    "varp-and-gfedavg-smooth-but-low": over(SVHN_TURNS, _smooth_but_low),
    **at_each_model("k100-beats-baselines", TURNS, _beats_baselines),
    **at_each_model("k100-matches-peak-of-known-svhn", SVHN_TURNS, _matches_known),
    **at_each_model("k100-beats-known-cifar10", CIFAR10_TURNS, partial(ahead, _K100, _KNOWN, 0.0)),
    "k100-beats-k0-in-turns": over(TURNS, ahead(_K100, _K0, 0.0, None)),
    "k100-beats-k0-in-turns-server": over(TURNS, ahead(_K100, _K0, 0.0, "server")),
    "accuracy-peaks-near-m": over(TURNS, _peaks_near_m(None)),
    "accuracy-peaks-near-m-server": over(TURNS, _peaks_near_m("server")),
    "rounds-shrink-then-grow": over(TURNS, _shrink_then_grow),
    **at_each_model("no-slowdown-in-turns", TURNS, _not_slower),
}
