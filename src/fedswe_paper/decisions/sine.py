"""Claims about the sine alone: Figure 3 and Tables 7, 8 and 9."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fedswe_paper.cell import PaperCell
from fedswe_paper.decisions.main_table import fedswe, unaided
from fedswe_paper.decisions.margins import lead, margin, mean_of_methods, signed
from fedswe_paper.decisions.scope import SVHN_SINE, Place, datasets
from fedswe_paper.decisions.verdict import Decide, Finding, Look, over
from fedswe_paper.measurements import Measurements
from fedswe_paper.recipes import accuracy_tables, motivating, slowdown
from fedswe_paper.recipes.labels import label
from fedswe_paper.selection import CONFERENCE, Selection
from fedswe_paper.tables import Measured

SLOWER = 1.5  # times the rounds: a significant slowdown; the paper gives no number
_COMPARABLE = 1.1  # times the rounds: comparable; the paper gives no number
_DROP = 10.0  # points, as the paper says of Figure 3


# Figure 3 ---------------------------------------------------------------------------------------------------
def _drop(selection: Selection, measured: Measurements, dataset: str, p: float, part: str) -> Measured | None:
    """The deepest sine minus the shallowest."""
    deep, shallow = (
        measured.scores(motivating.line(selection, dataset, p, gamma), f"{part}_accuracy")
        for gamma in (max(motivating.GAMMAS), min(motivating.GAMMAS))
    )
    return margin(deep, shallow)


def _costs(selection: Selection, measured: Measurements, dataset: str) -> Finding | None:
    p = min(motivating.PROBABILITIES)
    train, test = (_drop(selection, measured, dataset, p, part) for part in ("train", "test"))
    if train is None or test is None:
        return None
    return Finding(max(train.mean, test.mean) < -_DROP, f"train {signed(train)}, test {signed(test)}")


def _hurts(selection: Selection, measured: Measurements, dataset: str) -> Finding | None:
    drops = [(p, _drop(selection, measured, dataset, p, "test")) for p in motivating.PROBABILITIES]
    known = [(p, drop) for p, drop in drops if drop is not None]
    if len(known) < len(drops):
        return None
    numbers = ", ".join(f"p = {p:g} {signed(drop)}" for p, drop in known)
    return Finding(all(drop.mean < 0 for _, drop in known), f"{numbers}: gamma 0.5 minus gamma 0.1")


# Table 7: rounds are those of the curve averaged over seeds, as in the paper -----------------------------------
def _race(selection: Selection, measured: Measurements, dataset: str) -> list[tuple[int, float, float]] | None:
    """Target, rounds of FedSWE (k = 0), rounds of FedAvg over active clients."""
    cells = [selection.cell(dataset, "sine", (name, 0.0)) for name in ("fedswe", "fedavg")]
    race = []
    for target in slowdown.targets_of(dataset):
        ours, theirs = (slowdown.first_round(cell, measured, target) for cell in cells)
        if ours is None or theirs is None:
            return None
        race.append((target, ours.mean, theirs.mean))
    return race


def _said(selection: Selection, measured: Measurements, dataset: str, race: Sequence[tuple[int, float, float]]) -> str:
    a, b = (selection.cell(dataset, "sine", (name, 0.0)) for name in ("fedswe", "fedavg"))
    parts = []
    for target, ours, theirs in race:
        by_seed = margin(measured.rounds_to(a, target / 100), measured.rounds_to(b, target / 100))
        known = by_seed is not None and by_seed.seeds > 1 and math.isfinite(by_seed.mean)
        apart = f", by seed {signed(by_seed, 0)}" if known and by_seed is not None else ""
        parts.append(f"{rounds(ours)} against {rounds(theirs)} rounds to {target} %{apart}")
    return "; ".join(parts)


def rounds(value: float) -> str:
    return f"{value:.0f}" if math.isfinite(value) else "never"


def _at_the_last_reached(selection: Selection, measured: Measurements, dataset: str) -> Finding | None:
    """At the last target that FedAvg reaches: the first ones are a matter of one or two evaluations."""
    reached = [one for one in _race(selection, measured, dataset) or [] if 0 < one[2] < math.inf]
    if not reached:
        return None
    _, ours, theirs = reached[-1]
    return Finding(ours <= SLOWER * theirs, _said(selection, measured, dataset, reached[-1:]))


def _lags_at_first(selection: Selection, measured: Measurements, dataset: str) -> Finding | None:
    race = (_race(selection, measured, dataset) or [])[:-1]
    if not any(math.isfinite(theirs) for _, _, theirs in race):
        return None
    lags = all(ours >= theirs for _, ours, theirs in race) and any(ours > theirs for _, ours, theirs in race)
    return Finding(lags, _said(selection, measured, dataset, race))


def _last_target(within: float, slower: bool) -> Look[str]:
    """FedSWE within so many times the rounds of FedAvg, or beyond them."""

    def look(selection: Selection, measured: Measurements, dataset: str) -> Finding | None:
        last = (_race(selection, measured, dataset) or [])[-1:]
        if not last or math.isinf(min(last[0][1:])):
            return None
        _, ours, theirs = last[0]
        return Finding((ours > within * theirs) == slower, _said(selection, measured, dataset, last))

    return look


def _all_never_arrives(selection: Selection, measured: Measurements, dataset: str) -> Finding | None:
    target = slowdown.targets_of(dataset)[-1]
    cells = [selection.cell(dataset, "sine", row) for row in CONFERENCE]
    arrivals = {cell: slowdown.first_round(cell, measured, target) for cell in cells}
    known = {cell: found.mean for cell, found in arrivals.items() if found is not None}
    if len(known) < len(cells):
        return None
    holds = all(math.isinf(found) == (cell.algorithm == "fedavg_all") for cell, found in known.items())
    listed = ", ".join(f"{label(cell)} {rounds(found)}" for cell, found in known.items())
    return Finding(holds, f"rounds to {target} %: {listed}")


# Tables 8 and 9 -------------------------------------------------------------------------------------------------
def _leads_for_every(name: str, values: Sequence[float], mifa: bool = False) -> Look[Place]:
    """FedSWE (k = 0) against the closest unaided method of these tables, or against MIFA."""

    def rivals(selection: Selection, place: Place, value: float) -> list[PaperCell]:
        if mifa:
            return [selection.cell(*place, ("mifa", 0.0), **{name: value})]
        return [c for c in unaided(selection, place, **{name: value}) if c.algorithm != "gfedavg"]

    def look(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
        leads = [
            (v, lead(measured, fedswe(selection, place, 0.0, **{name: v}), rivals(selection, place, v))) for v in values
        ]
        known = [(value, found) for value, found in leads if found is not None]
        if len(known) < len(leads):
            return None
        numbers = "; ".join(f"{name} {value:g} {signed(by)} against {rival}" for value, (rival, by) in known)
        return Finding(all(by.mean > 0 for _, (_, by) in known), numbers)

    return look


def _rises_with_alpha(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
    low, middle, high = (
        mean_of_methods(measured, [selection.cell(*place, row, alpha=alpha) for row in CONFERENCE])
        for alpha in accuracy_tables.ALPHAS
    )
    first, second = margin(middle, low), margin(high, middle)
    if first is None or second is None:
        return None
    numbers = f"{signed(first)} to alpha 0.1, {signed(second)} from there to 1; mean of seven methods"
    return Finding(first.mean > 0 and second.mean > 0, numbers)


SINE_DECISIONS: dict[str, Decide] = {
    "gamma-costs-fedavg-accuracy": over(datasets("svhn"), _costs),
    "non-stationarity-hurts": over(datasets("svhn"), _hurts),
    "no-slowdown": over(datasets(), _at_the_last_reached),
    "slower-at-first": over(datasets(), _lags_at_first),
    "no-slowdown-at-the-last-target": over(datasets("svhn", "cinic10"), _last_target(_COMPARABLE, slower=False)),
    "slower-on-cifar10": over(datasets("cifar10"), _last_target(1.0, slower=True)),
    "fedavg-all-never-arrives": over(datasets(), _all_never_arrives),
    "every-gamma": over(SVHN_SINE, _leads_for_every("gamma", accuracy_tables.GAMMAS)),
    "every-alpha": over(SVHN_SINE, _leads_for_every("alpha", accuracy_tables.ALPHAS)),
    "accuracy-rises-with-alpha": over(SVHN_SINE, _rises_with_alpha),
    "beats-mifa-for-larger-alpha": over(SVHN_SINE, _leads_for_every("alpha", (0.1, 1.0), mifa=True)),
}
