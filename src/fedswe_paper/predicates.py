"""Predicates: what a claim says of the runs of one place, for the rows of claims.toml to name and to fill in.

Methods stand there as in "mifa, k100 alpha=0.05", or as the name of a group. Rows of a group that are at chance
are left out and noted, for no claim is decided by one that did not train; those that are named count in any case.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from fedswe_paper.cell import Dynamics, PaperCell
from fedswe_paper.margin import Finding, Margin, Unit, at_least, both, every, margin
from fedswe_paper.measurements import (
    Measurements,
    Statistic,
    accuracy,
    arrival,
    growth,
    last_error,
    peak,
    second_half,
    swing,
    tail,
)  # fmt: skip
from fedswe_paper.recipes.accuracy import first_round, targets_of
from fedswe_paper.recipes.labels import label, seeds_named
from fedswe_paper.recipes.periodic import BASELINES, sweep
from fedswe_paper.selection import AIDED, ROWS, Selection

MODELS = {"client_mean": "client mean", "server": "server model"}  # in words
GROUPS = {
    name: ", ".join(f"k{k:g}" if algorithm == "fedswe" else algorithm for algorithm, k in rows)
    for name, rows in {
        "unaided": [row for row in ROWS if row[0] not in ("fedswe", *AIDED)],  # neither memory nor known statistics
        "unaided and fedswe": [row for row in ROWS if row[0] not in AIDED],
        "all but fedavg_all": [row for row in ROWS if row[0] != "fedavg_all"],
        "baselines": BASELINES,  # where groups take turns
        "unaided baselines": [row for row in BASELINES if row[0] not in AIDED],
    }.items()
}
_SLOWER = 1.5  # times the rounds: a significant slowdown; the paper gives no number


@dataclass(frozen=True)
class Metric:
    """What ours are compared by with theirs."""

    of: Callable[[str | None], Statistic]  # at a model
    what: str = "{ours} minus {theirs}"
    sign: float = 1.0  # -1: ours are to be below theirs
    unit: Unit = "points"


_ERROR = "consensus error, k = {b.k:g} over k = {a.k:g}, logarithm"
METRICS = {
    "test": Metric(accuracy),
    "train": Metric(partial(accuracy, part="train")),
    "peak": Metric(peak, "peak of {ours} minus that of {theirs}"),
    "swing": Metric(swing, "swing of {theirs} minus that of {ours}", -1.0),
    "consensus error": Metric(lambda output: Statistic(lambda run: math.log10(last_error(run))), _ERROR, -1.0, "log10"),
}


@dataclass(frozen=True)
class Place:
    """A data set and dynamics, and the model that all methods are judged by there; None: each by the profile's."""

    selection: Selection
    measured: Measurements
    dataset: str
    dynamics: Dynamics
    output: str | None

    def cells(self, methods: str, **coordinates: float) -> list[PaperCell]:
        texts = GROUPS.get(methods, methods).split(", ")
        return [self.selection.described(self.dataset, self.dynamics, text, **coordinates) for text in texts]

    def sweep(self) -> list[PaperCell]:
        """FedSWE for every k."""
        return sweep(self.selection, self.dataset, self.dynamics)

    def training(self, methods: str, cells: Sequence[PaperCell] = ()) -> tuple[list[PaperCell], str]:
        """These cells of the methods without those that are at chance, and a note on them."""
        cells = cells or self.cells(methods)
        left_out = [cell for cell in cells if methods in GROUPS and self.measured.at_chance(cell)]
        note = f"left out, at chance: {', '.join(dict.fromkeys(map(label, left_out)))}" if left_out else ""
        return [cell for cell in cells if cell not in left_out], note

    def named(self, cell: PaperCell) -> str:
        """The method and the model it is judged by."""
        return f"{label(cell)} ({(self.output or cell.judged_by).replace('_', ' ')})"

    def margin(self, what: str, *terms: tuple[float, PaperCell, Statistic], **more: Any) -> Margin | None:
        return margin(self.measured, what, *terms, **more)

    def lead(self, metric: str, a: PaperCell, b: PaperCell, above: float = 0.0, what: str = "") -> Margin | None:
        """Of a, ours, over b, theirs."""
        by, of = METRICS[metric], METRICS[metric].of(self.output)
        named = (what or by.what).format(ours=self.named(a), theirs=self.named(b), a=a, b=b, metric=metric)
        return self.margin(named, (by.sign, a, of), (-by.sign, b, of), threshold=above, unit=by.unit)

    def first_round(self, method: str, target: int) -> float:
        """Of the curve averaged over seeds; infinite where it was never reached, or not measured."""
        first = first_round(self.cells(method)[0], self.measured, target, self.output)
        return first.mean if first else math.inf

    def other_swings(self, cells: Sequence[PaperCell]) -> str:
        """A note beside the swing in turns of groups: with the trend of the curve, and over all phases."""
        shown, same = [], self.measured.alike(cells)
        seeds = self.measured.common_seeds(same)
        for cell in same:
            finite = [run for run in self.measured.of(cell) if run.cell.seed in seeds and not run.diverged]
            swings = [[100 * np.std(f(run, run.column(self.output))) for f in (second_half, tail)] for run in finite]
            if swings:
                shown.append(f"{self.named(cell)} " + " and ".join(f"{mean:.1f}" for mean in np.mean(swings, axis=0)))
        about = "other swings, in one phase about the mean and over all phases of the last rounds"
        return f"{about} ({same[0].rounds} rounds, {seeds_named(seeds)}): {', '.join(shown)}" if shown else ""


# Accuracy -----------------------------------------------------------------------------------------------------
def ahead(
    place: Place,
    ours: str,
    theirs: str,
    metrics: Sequence[str] = ("test",),
    above: float = 0.0,
    each: Sequence[dict[str, float]] = ({},),
    what: str = "",
    one_is_enough: bool = False,
) -> Finding | None:
    """Each of ours beats each of theirs, for each of these coordinates."""
    margins, notes = [], []
    for more in each:
        left, note = place.training(ours, place.cells(ours, **more))
        right, other = place.training(theirs, place.cells(theirs, **more))
        pairs = [(a, b) for a in left for b in right if a != b]
        margins += [place.lead(metric, *pair, above, what) for pair in pairs for metric in metrics]
        notes += [note, other]
    return at_least(1 if one_is_enough else len(margins), margins, *notes)


def mean_falls(place: Place, methods: str, name: str, steps: Sequence[Sequence[Any]]) -> Finding | None:
    """The mean over methods falls at each step from one value of a coordinate to another."""

    def at(value: Any, cell: PaperCell) -> PaperCell:
        return replace(cell, **{name: value})

    cells, values, margins = place.cells(methods), [value for step in steps for value in step], []
    trained, note = place.training(methods, [at(value, cell) for cell in cells for value in values])
    rows = [cell for cell in cells if {at(value, cell) for value in values} <= set(trained)]
    model = f"all at the {MODELS[place.output]}" if place.output else "each at its judged model"
    of, share = accuracy(place.output), 1 / max(len(rows), 1)
    for first, second in steps if rows else ():
        a, b = (value if isinstance(value, str) else f"{name} {value:g}" for value in (first, second))
        terms = [(share, at(first, cell), of) for cell in rows] + [(-share, at(second, cell), of) for cell in rows]
        margins.append(place.margin(f"{a} minus {b}, mean of {len(rows)} methods, {model}", *terms))
    return every(margins, note)


# Rounds to an accuracy ----------------------------------------------------------------------------------------
def _targets(place: Place, which: str) -> Sequence[float]:
    """Of the scale, or of Table 7, in percent; none where it is too early to tell."""
    if which == "of the scale":
        return [100 * place.selection.scale.target]
    targets = targets_of(place.dataset)
    first = {target: place.first_round("fedavg", target) for target in targets}
    if which == "last reached by fedavg":  # the first ones are a matter of one or two evaluations
        return [target for target in targets if 0 < first[target] < math.inf][-1:]
    if which == "all but the last":
        return targets[:-1] if math.isfinite(first[targets[0]]) else ()
    return targets[-1:] if {first[targets[-1]], place.first_round("k0", targets[-1])} != {math.inf} else ()


def in_time(place: Place, ours: str, theirs: str, target: str, within: float = _SLOWER) -> Finding | None:
    """Each of ours needs at most so many times the rounds of each of theirs, in the mean over the targets."""
    wanted = _targets(place, target)
    if not wanted:
        return None
    (rivals, note), margins = place.training(theirs), []
    listed = ("to " if len(wanted) == 1 else "mean over ") + ", ".join(f"{goal:g} %" for goal in wanted)
    times = "rounds" if within == 1 else f"{within:g} times the rounds"
    for a in place.cells(ours):
        for b in rivals:
            what = f"{listed}: {times} of {place.named(b)} minus those of {place.named(a)}"
            arrivals = [
                (weight / len(wanted), cell, arrival(cell, goal / 100, place.output))
                for weight, cell in ((within, b), (-1.0, a))
                for goal in wanted
            ]
            margins.append(place.margin(what, *arrivals, unit="rounds"))
    return every(margins, note)


def only_fedavg_all_never_arrives(place: Place, methods: str) -> Finding | None:
    """At the last target: the others reach it."""
    target, highest = targets_of(place.dataset)[-1], peak(place.output)
    above = replace(highest, of=lambda run: highest.of(run) - target)
    margins = []
    for cell in place.cells(methods):
        side, sign = ("below", -1.0) if cell.algorithm == "fedavg_all" else ("above", 1.0)
        what = f"highest test accuracy of {place.named(cell)} {side} {target} %"
        margins.append(place.margin(what, (sign, cell, above)))
    return every(margins)


# In turns of groups -------------------------------------------------------------------------------------------
def consensus_error(place: Place, falls: bool, what: str) -> Finding | None:
    """From the first tenth of the rounds to the last ones: it falls at last with every k > 0, or grows with k = 0."""
    terms = [(-1.0 if falls else 1.0, cell, Statistic(growth)) for cell in place.sweep() if (cell.k > 0) == falls]
    return every([place.margin(what.format(k=term[1].k), term, unit="log10", eventually=falls) for term in terms])


def falls_with_k(place: Place, metric: str) -> Finding | None:
    cells = place.sweep()
    note = place.other_swings(cells) if metric == "swing" else ""
    return every([place.lead(metric, more, less) for less, more in pairwise(cells)], note)


def smoother_than_most(place: Place) -> Finding | None:
    """FedSWE with k = 100 swings less than with k = 0 and than most of the baselines."""
    ours, plain = place.cells("k100, k0")
    rivals, note = place.training("baselines")
    beside = place.other_swings([ours, plain, *rivals])
    others = [place.lead("swing", ours, cell) for cell in rivals]
    return both(every([place.lead("swing", ours, plain)], beside), at_least(len(others) // 2 + 1, others, note))


def fluctuates_like_the_baselines(place: Place) -> Finding | None:
    """FedSWE with k = 0: between half the mean swing of the baselines and twice that."""
    (ours,), (others, note) = place.cells("k0"), place.training("baselines")
    name, mean = f"swing of {place.named(ours)}", f"the mean of the baselines ({place.output})"
    of, margins = swing(place.output), []
    for what, own, factor in ((f"{name} minus half {mean}", 1.0, -0.5), (f"twice {mean} minus {name}", -1.0, 2.0)):
        margins.append(place.margin(what, (own, ours, of), *((factor / len(others), cell, of) for cell in others)))
    return every(margins, place.other_swings([ours, *others]), note)


def two_are_smooth_but_low(place: Place) -> Finding | None:
    """gFedAvg and FedVARP swing less than each of the other four, and peak below FedAvg with known probabilities."""
    cells, note = place.training("baselines")
    smooth = [cell for cell in cells if cell.algorithm in ("gfedavg", "fedvarp")]
    (known,) = place.cells("fedavg_known")
    swings = [place.lead("swing", a, b) for a in smooth for b in cells if b not in smooth]
    peaks = [place.lead("peak", known, cell) for cell in smooth]
    return every([*swings, *peaks], place.other_swings(cells), note)


def matches_the_peak_of_known(place: Place, above: float) -> Finding | None:
    """FedSWE with k = 100 at its end not further below the peak of FedAvg with known p, and with less swing."""
    ours, known = place.cells("k100, fedavg_known")
    what = f"{place.named(ours)} at the end minus the peak of {place.named(known)}"
    level = place.margin(what, (1.0, ours, accuracy(place.output)), (-1.0, known, peak(place.output)), threshold=above)
    return every([level, place.lead("swing", ours, known)], place.other_swings([ours, known]))


# Rankings: all k are looked at with the rounds and seeds that all of them have --------------------------------
def _ranked(place: Place, of: Statistic, sign: float) -> tuple[dict[float, PaperCell], list[float], list[int], str]:
    """All k; those between m/2 and 2m, the best of them first; the seeds that all have; and the means, to be noted."""
    ranked = {cell.k: cell for cell in place.measured.alike(place.sweep(), of.at_least)}
    values = {k: place.measured.values(cell, of) for k, cell in ranked.items()}
    seeds = sorted(set.intersection(*map(set, values.values())))
    means = {k: float(np.mean([row[seed] for seed in seeds])) for k, row in values.items() if seeds}
    m = place.selection.scale.clients
    near = [k for k in means if m / 2 <= k <= 2 * m]
    near.sort(key=lambda k: math.inf if math.isnan(means[k]) else sign * means[k], reverse=True)
    digits = 1 if sign > 0 else 0
    shown = ", ".join(f"k = {k:g} {mean:.{digits}f}".replace("nan", "NaN") for k, mean in means.items())
    return ranked, near, seeds, f"{shown} ({seeds_named(seeds)})"


def accuracy_peaks_near_m(place: Place) -> Finding | None:
    """The best k near m is more accurate than every k that is not."""
    of = accuracy(place.output)
    ranked, near, seeds, means = _ranked(place, of, 1.0)
    if not near:
        return None
    best, model = ranked[near[0]], MODELS[place.output or place.sweep()[0].judged_by]
    margins = [
        place.margin(f"k = {best.k:g} minus k = {k:g} ({model})", (1.0, best, of), (-1.0, cell, of), among=seeds)
        for k, cell in ranked.items()
        if k not in near
    ]
    return every(margins, means)


def rounds_shrink_then_grow(place: Place) -> Finding | None:
    """The best k near m needs fewer rounds than the smallest; the largest needs more than _SLOWER times as many."""
    target = place.selection.scale.target
    of = arrival(place.sweep()[0], target, place.output)
    ranked, near, seeds, means = _ranked(place, of, -1.0)
    if not near:
        return None
    first, best, last = ranked[min(ranked)], ranked[near[0]], ranked[max(ranked)]
    few = f"rounds of k = {first.k:g} minus those of k = {best.k:g}"
    many = f"rounds of k = {last.k:g} minus {_SLOWER:g} times those of k = {best.k:g}"
    margins = [
        place.margin(what, (1.0, cell, of), (-times, best, of), unit="rounds", among=seeds)
        for what, cell, times in ((few, first, 1.0), (many, last, _SLOWER))
    ]
    return every(margins, f"rounds to {100 * target:.0f} %: {means}")


PREDICATES: dict[str, Callable[..., Finding | None]] = {predicate.__name__: predicate for predicate in (
    ahead, mean_falls, in_time, only_fedavg_all_never_arrives, consensus_error, falls_with_k, smoother_than_most,
    fluctuates_like_the_baselines, two_are_smooth_but_low, matches_the_peak_of_known, accuracy_peaks_near_m,
    rounds_shrink_then_grow,
)}  # fmt: skip
