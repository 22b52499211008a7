"""Predicates: what a claim says of the runs of one place, for the rows of claims.toml to name and to fill in.

Methods stand there as in "fedswe 100" (FedSWE with k = 100) or "mifa", several of them as in "fedswe 0, mifa", or as
the name of a group of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from fedswe_paper.cell import Dynamics, PaperCell
from fedswe_paper.margin import (
    Margin,
    Numbers,
    Statistic,
    accuracy,
    alike,
    arrival,
    column_of,
    margin,
    peak,
    second_half,
    swing,
    tail,
)
from fedswe_paper.measurements import Measurements
from fedswe_paper.recipes.accuracy import first_round, targets_of
from fedswe_paper.recipes.labels import label, seeds_named
from fedswe_paper.recipes.periodic import BASELINES, sweep
from fedswe_paper.results import FinishedRun
from fedswe_paper.selection import AIDED, CONFERENCE, ROWS, Row, Selection
from fedswe_paper.verdict import Finding, at_least, both, every

MODELS = {"client_mean": "client mean", "server": "server model"}  # in words
GROUPS: dict[str, list[Row]] = {
    "unaided": [row for row in ROWS if row[0] not in ("fedswe", *AIDED)],  # neither memory nor known statistics
    "unaided and fedswe": [row for row in ROWS if row[0] not in AIDED],
    "all but fedavg_all": [row for row in ROWS if row[0] != "fedavg_all"],
    "conference": list(CONFERENCE),  # the rows of Tables 7, 8 and 9
    "unaided, conference": [row for row in CONFERENCE if row[0] not in ("fedswe", *AIDED)],
    "baselines": list(BASELINES),  # where groups take turns
    "unaided baselines": [row for row in BASELINES if row[0] not in AIDED],
}
_SLOWER = 1.5  # times the rounds: a significant slowdown; the paper gives no number
_METRICS: dict[str, tuple[Callable[[str | None], Statistic], int, str]] = {  # that ours exceed or, -1, are exceeded in
    "accuracy": (accuracy, 1, "{ours} minus {theirs}"),
    "peak": (peak, 1, "peak of {ours} minus that of {theirs}"),
    "swing": (swing, -1, "swing of {theirs} minus that of {ours}"),
}


@dataclass(frozen=True)
class Place:
    """A data set and dynamics, and the model that all methods are judged by there; None: each by the profile's."""

    selection: Selection
    measured: Measurements
    dataset: str
    dynamics: Dynamics
    output: str | None

    def cells(self, methods: str, **variation: float) -> list[PaperCell]:
        rows = GROUPS.get(methods) or [(name, float(*k)) for name, *k in map(str.split, methods.split(", "))]
        return [self.selection.cell(self.dataset, self.dynamics, row, **variation) for row in rows]

    def cell(self, method: str, **variation: float) -> PaperCell:
        (cell,) = self.cells(method, **variation)
        return cell

    def sweep(self) -> list[PaperCell]:
        """FedSWE for every k."""
        return sweep(self.selection, self.dataset, self.dynamics)

    def training(self, cells: Sequence[PaperCell]) -> tuple[list[PaperCell], str]:
        """Those that are not at chance, and a note on the others: no claim is decided by a row that did not train."""
        left_out = [cell for cell in cells if self.measured.at_chance(cell)]
        note = f"left out, at chance: {', '.join(dict.fromkeys(map(label, left_out)))}" if left_out else ""
        return [cell for cell in cells if cell not in left_out], note

    def named(self, cell: PaperCell) -> str:
        """The method and the model it is judged by."""
        return f"{label(cell)} ({(self.output or cell.judged_by).replace('_', ' ')})"

    def numbers(self, cell: PaperCell, statistic: Statistic) -> Numbers:
        return Numbers(self.measured, cell, statistic)

    def margin(self, what: str, of: Statistic, *terms: tuple[float, PaperCell], **more: Any) -> Margin | None:
        return margin(what, [(weight, self.numbers(cell, of)) for weight, cell in terms], **more)

    def lead(self, metric: str, ours: PaperCell, theirs: PaperCell, above: float = 0.0) -> Margin | None:
        of, sign, what = _METRICS[metric]
        named = what.format(ours=self.named(ours), theirs=self.named(theirs))
        return self.margin(named, of(self.output), (sign, ours), (-sign, theirs), threshold=above)

    def arrival(self, target: float) -> Statistic:
        return arrival(self.cell("fedavg"), target, self.output)

    def first_round(self, method: str, target: int) -> float:
        """Of the curve averaged over seeds; infinite where it was never reached, or not measured."""
        first = first_round(self.cell(method), self.measured, target, self.output)
        return first.mean if first else math.inf

    def other_swings(self, cells: Sequence[PaperCell]) -> str:
        """A note beside the swing in turns of groups: with the trend of the curve, and over all phases."""
        shown, same = [], self.measured.alike(cells)
        seeds = self.measured.common_seeds(same)
        for cell in same:
            finite = [run for run in self.measured.of(cell) if run.cell.seed in seeds and not run.diverged]
            if finite:
                column = column_of(finite[0], self.output)
                level = 100 * np.mean([np.std(second_half(run, column)) for run in finite])
                phases = 100 * np.mean([np.std(tail(run, column)) for run in finite])
                shown.append(f"{self.named(cell)} {level:.1f} and {phases:.1f}")
        about = "other swings, in one phase about the mean and over all phases of the last rounds"
        return f"{about} ({same[0].rounds} rounds, {seeds_named(seeds)}): {', '.join(shown)}" if shown else ""


# Accuracy -----------------------------------------------------------------------------------------------------
def ahead(
    place: Place, ours: str, theirs: str, metric: str = "accuracy", above: float = 0.0, one_is_enough: bool = False
) -> Finding | None:
    """Each of ours beats each of theirs, where the rows of a group train."""
    left, right, note = place.cells(ours), place.cells(theirs), ""
    if ours in GROUPS:
        left, note = place.training(left)
    if theirs in GROUPS:
        right, note = place.training(right)
    margins = [place.lead(metric, one, rival, above) for one in left for rival in right if one != rival]
    return at_least(1 if one_is_enough else len(margins), margins, note)


def ahead_for_every(
    place: Place, theirs: str, name: str, values: Sequence[float], parts: Sequence[str]
) -> Finding | None:
    """FedSWE (k = 0) beats each of theirs, whatever the value of a coordinate."""
    margins = []
    for value in values:
        ours = place.cell("fedswe 0", **{name: value})
        for rival in place.cells(theirs, **{name: value}):
            for part in parts:
                what = f"{name} {value:g}, {part}: {place.named(ours)} minus {place.named(rival)}"
                margins.append(place.margin(what, accuracy(place.output, part), (1.0, ours), (-1.0, rival)))
    return every(margins)


def drops_with_gamma(
    place: Place, probabilities: Sequence[float], gammas: Sequence[float], parts: Sequence[str], above: float = 0.0
) -> Finding | None:
    """FedAvg with one p for all clients, from the shallowest sine to the deepest."""
    margins = []
    for p in probabilities:
        one, other = (cell for gamma in gammas for cell in place.cells("fedavg", p=p, gamma=gamma))
        for part in parts:
            what = f"p = {p:g}, {part}: gamma {one.gamma:g} minus gamma {other.gamma:g}, {place.named(one)}"
            margins.append(place.margin(what, accuracy(place.output, part), (1.0, one), (-1.0, other), threshold=above))
    return every(margins)


def mean_falls(place: Place, methods: str, dynamics: Sequence[str]) -> Finding | None:
    """The mean accuracy of the methods that train falls from each dynamics to the next."""
    table = [[replace(cell, dynamics=each) for each in dynamics] for cell in place.cells(methods)]  # type: ignore[arg-type]
    trained, note = place.training([cell for cells in table for cell in cells])
    columns = list(zip(*(cells for cells in table if set(cells) <= set(trained)), strict=True))
    return every([_mean_change(place, *a, *b) for a, b in pairwise(zip(dynamics, columns, strict=False))], note)


def mean_rises(place: Place, methods: str, alphas: Sequence[float]) -> Finding | None:
    """The mean accuracy of the methods rises from each alpha to the next."""
    columns = [(f"alpha {alpha:g}", place.cells(methods, alpha=alpha)) for alpha in alphas]
    return every([_mean_change(place, *more, *less) for less, more in pairwise(columns)])


def _mean_change(
    place: Place, a: str, before: Sequence[PaperCell], b: str, after: Sequence[PaperCell]
) -> Margin | None:
    terms = [(1 / len(before), cell) for cell in before] + [(-1 / len(after), cell) for cell in after]
    at = f"all at the {MODELS[place.output]}" if place.output else "each at its judged model"
    return place.margin(f"{a} minus {b}, mean of {len(before)} methods, {at}", accuracy(place.output), *terms)


# Rounds to an accuracy ----------------------------------------------------------------------------------------
def in_time(place: Place, ours: str, theirs: str, target: str, within: float = _SLOWER) -> Finding | None:
    """Each of ours needs at most so many times the rounds of each of theirs.

    To the target of the scale, where those train; or of Table 7 to the last one, if FedSWE (k = 0) or FedAvg reaches
    it, or to the last one that FedAvg reaches: the first ones are a matter of one or two evaluations.
    """
    rivals, note = place.cells(theirs), ""
    targets = targets_of(place.dataset)
    if target == "of the scale":
        rivals, note = place.training(rivals)
        fraction = place.selection.scale.target
    elif target == "last":
        if math.inf == place.first_round("fedswe 0", targets[-1]) == place.first_round("fedavg", targets[-1]):
            return None
        fraction = targets[-1] / 100
    else:
        reached = [target for target in targets if 0 < place.first_round("fedavg", target) < math.inf]
        if not reached:
            return None
        fraction = reached[-1] / 100
    times = "rounds" if within == 1 else f"{within:g} times the rounds"
    margins = []
    for cell in place.cells(ours):
        for rival in rivals:
            what = f"to {100 * fraction:g} %: {times} of {place.named(rival)} minus those of {place.named(cell)}"
            margins.append(place.margin(what, place.arrival(fraction), (within, rival), (-1.0, cell), unit="rounds"))
    return every(margins, note)


def lags_at_first(place: Place) -> Finding | None:
    """FedSWE (k = 0) behind FedAvg in the mean over the first three of four targets."""
    ours, theirs = place.cells("fedswe 0, fedavg")
    targets = targets_of(place.dataset)[:-1]
    if not math.isfinite(place.first_round("fedavg", targets[0])):
        return None
    terms = [
        (sign / len(targets), place.numbers(cell, place.arrival(target / 100)))
        for sign, cell in ((1.0, ours), (-1.0, theirs))
        for target in targets
    ]
    listed = ", ".join(f"{target} %" for target in targets)
    what = f"mean over {listed}: rounds of {place.named(ours)} minus those of {place.named(theirs)}"
    return every([margin(what, terms, unit="rounds")])


def only_fedavg_all_never_arrives(place: Place) -> Finding | None:
    """At the last target: the others reach it."""
    target, highest = targets_of(place.dataset)[-1], peak(place.output)
    above = replace(highest, of=lambda run: highest.of(run) - target)
    margins = []
    for cell in place.cells("conference"):
        side, sign = ("below", -1.0) if cell.algorithm == "fedavg_all" else ("above", 1.0)
        what = f"highest test accuracy of {place.named(cell)} {side} {target} %"
        margins.append(place.margin(what, above, (sign, cell)))
    return every(margins)


# Consensus in turns of groups ---------------------------------------------------------------------------------
def _last_error(run: FinishedRun) -> float:
    """Logarithm of the mean consensus error over the last rounds."""
    return math.log10(float(np.mean(tail(run, "consensus_clients"))))


def _growth(run: FinishedRun) -> float:
    """By how much the error of the last rounds exceeds that of the first tenth (or of the first evaluation)."""
    rows = run.history.rows[1:]  # at the start all models are equal
    until = max(run.history.last["round"] / 10, rows[0]["round"])
    early = [row["consensus_clients"] for row in rows if row["round"] <= until]
    return _last_error(run) - math.log10(float(np.mean(early)))


def consensus_decays(place: Place) -> Finding | None:
    """With every k > 0."""
    what = "consensus error, first tenth of the rounds over the last rounds, logarithm"
    more: dict[str, Any] = {"unit": "log10", "eventually": True}
    cells = [cell for cell in place.sweep() if cell.k > 0]
    return every([place.margin(f"k = {c.k:g}: {what}", Statistic(_growth), (-1.0, c), **more) for c in cells])


def consensus_fails_at_zero(place: Place) -> Finding | None:
    what = "consensus error of k = 0, last rounds over the first tenth, logarithm"
    return every([place.margin(what, Statistic(_growth), (1.0, place.cell("fedswe 0")), unit="log10")])


def consensus_improves_with_k(place: Place) -> Finding | None:
    margins = []
    for a, b in pairwise(place.sweep()):
        what = f"consensus error, k = {a.k:g} over k = {b.k:g}, logarithm"
        margins.append(place.margin(what, Statistic(_last_error), (1.0, a), (-1.0, b), unit="log10"))
    return every(margins)


# Swing and peak in turns of groups ----------------------------------------------------------------------------
def smoother_than_most(place: Place) -> Finding | None:
    """FedSWE with k = 100 swings less than with k = 0 and than most of the baselines."""
    ours, plain = place.cells("fedswe 100, fedswe 0")
    rivals, note = place.training(place.cells("baselines"))
    beside = place.other_swings([ours, plain, *rivals])
    others = [place.lead("swing", ours, cell) for cell in rivals]
    return both(every([place.lead("swing", ours, plain)], beside), at_least(len(others) // 2 + 1, others, note))


def smoother_with_k(place: Place) -> Finding | None:
    cells = place.sweep()
    return every([place.lead("swing", b, a) for a, b in pairwise(cells)], place.other_swings(cells))


def fluctuates_like_the_baselines(place: Place) -> Finding | None:
    """FedSWE with k = 0: between half the mean swing of the baselines and twice that."""
    (ours,), (others, note) = place.cells("fedswe 0"), place.training(place.cells("baselines"))
    name, mean = f"swing of {place.named(ours)}", f"the mean of the baselines ({place.output})"

    def weighed(what: str, own: float, factor: float) -> Margin | None:
        return place.margin(what, swing(place.output), (own, ours), *((factor / len(others), c) for c in others))

    margins = [weighed(f"{name} minus half {mean}", 1.0, -0.5), weighed(f"twice {mean} minus {name}", -1.0, 2.0)]
    return every(margins, "; ".join(filter(None, [place.other_swings([ours, *others]), note])))


def two_are_smooth_but_low(place: Place) -> Finding | None:
    """gFedAvg and FedVARP swing less than each of the other four, and peak below FedAvg with known probabilities."""
    cells, note = place.training(place.cells("baselines"))
    smooth = [cell for cell in cells if cell.algorithm in ("gfedavg", "fedvarp")]
    swings = [place.lead("swing", a, b) for a in smooth for b in cells if b not in smooth]
    peaks = [place.lead("peak", place.cell("fedavg_known"), cell) for cell in smooth]
    return every([*swings, *peaks], "; ".join(filter(None, [place.other_swings(cells), note])))


def matches_the_peak_of_known(place: Place, above: float) -> Finding | None:
    """FedSWE with k = 100 at its end not further below the peak of FedAvg with known p, and with less swing."""
    ours, known = place.cells("fedswe 100, fedavg_known")
    what = f"{place.named(ours)} at the end minus the peak of {place.named(known)}"
    terms = [(1.0, place.numbers(ours, accuracy(place.output))), (-1.0, place.numbers(known, peak(place.output)))]
    return every([margin(what, terms, above), place.lead("swing", ours, known)], place.other_swings([ours, known]))


# Rankings: all k are looked at with the rounds and seeds that all of them have --------------------------------
def _ranked(place: Place, statistic: Statistic, sign: float) -> tuple[dict[float, Numbers], list[float], str]:
    """All k; those between m/2 and 2m, the best of them first; and the means, to be noted."""
    rows = alike([place.numbers(cell, statistic) for cell in place.sweep()])
    seeds = frozenset.intersection(*(frozenset(row.values) for row in rows))
    ranked = {row.cell.k: replace(row, chosen=seeds) for row in rows} if seeds else {}
    m, means = place.selection.scale.clients, {k: row.mean for k, row in ranked.items()}
    near = [k for k in ranked if m / 2 <= k <= 2 * m]
    near.sort(key=lambda k: math.inf if math.isnan(means[k]) else sign * means[k], reverse=True)
    digits = 1 if sign > 0 else 0
    shown = ", ".join(f"k = {k:g} {mean:.{digits}f}".replace("nan", "NaN") for k, mean in means.items())
    return ranked, near, f"{shown} ({seeds_named(sorted(seeds))})"


def accuracy_peaks_near_m(place: Place) -> Finding | None:
    """The best k near m is more accurate than every k that is not."""
    ranked, near, means = _ranked(place, accuracy(place.output), 1.0)
    if not near:
        return None
    model = MODELS[place.output or place.sweep()[0].judged_by]
    margins = [
        margin(f"k = {near[0]:g} minus k = {k:g} ({model})", [(1.0, ranked[near[0]]), (-1.0, each)])
        for k, each in ranked.items()
        if k not in near
    ]
    return every(margins, means)


def rounds_shrink_then_grow(place: Place) -> Finding | None:
    """The best k near m needs fewer rounds than the smallest; the largest needs more than _SLOWER times as many."""
    target = place.selection.scale.target
    ranked, near, means = _ranked(place, place.arrival(target), -1.0)
    if not near:
        return None
    first, best, last = min(ranked), near[0], max(ranked)
    few = f"rounds of k = {first:g} minus those of k = {best:g}"
    many = f"rounds of k = {last:g} minus {_SLOWER:g} times those of k = {best:g}"
    fewer = margin(few, [(1.0, ranked[first]), (-1.0, ranked[best])], unit="rounds")
    more = margin(many, [(1.0, ranked[last]), (-_SLOWER, ranked[best])], unit="rounds")
    return every([fewer, more], f"rounds to {100 * target:.0f} %: {means}")


PREDICATES: dict[str, Callable[..., Finding | None]] = {
    predicate.__name__: predicate
    for predicate in (
        ahead, ahead_for_every, drops_with_gamma, mean_falls, mean_rises, in_time, lags_at_first,
        only_fedavg_all_never_arrives, consensus_decays, consensus_fails_at_zero, consensus_improves_with_k,
        smoother_than_most, smoother_with_k, fluctuates_like_the_baselines, two_are_smooth_but_low,
        matches_the_peak_of_known, accuracy_peaks_near_m, rounds_shrink_then_grow,
    )
}  # fmt: skip
