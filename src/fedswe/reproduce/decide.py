"""Decisions: one function per claim, from the measurements alone.

Each looks at every place (data set and dynamics) that has been measured. A claim holds if it holds in all of them;
the evidence names the numbers, and says how many places there were to look at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from fedswe.reproduce.cell import Cell, Dynamics
from fedswe.reproduce.choice import AIDED, DATASETS, PERIODIC, ROWS, STEADY, Choice
from fedswe.reproduce.measurements import Measurements
from fedswe.reproduce.recipes import accuracy_tables, motivating, periodic, slowdown
from fedswe.reproduce.recipes.words import label

Status = Literal["holds", "does not hold", "not yet measured"]
Place = tuple[str, Dynamics]

_PATIENCE = 1.5  # a slowdown beyond this factor is significant; the paper gives no number
_PERIODIC_SETS = ("svhn", "cifar10")


@dataclass(frozen=True)
class Verdict:
    status: Status
    evidence: str


@dataclass(frozen=True)
class Finding:
    """What one place says."""

    holds: bool
    numbers: str


Look = Callable[[Choice, Measurements, Place], Finding | None]  # None: not measured there


def _over(look: Look, places: Callable[[Choice], list[Place]]) -> Callable[[Choice, Measurements], Verdict]:
    def decide(choice: Choice, measured: Measurements) -> Verdict:
        there = places(choice)
        found = [(place, finding) for place in there if (finding := look(choice, measured, place)) is not None]
        if not found:
            return Verdict("not yet measured", f"0 of {len(there)} places")
        held = sum(finding.holds for _, finding in found)
        lines = [f"{d}, {dyn}: {f.numbers}{'' if f.holds else ' ✗'}" for (d, dyn), f in found]
        count = f"in {held} of the {len(found)} places measured"
        count += f", of {len(there)}" if len(found) < len(there) else ""
        return Verdict("holds" if held == len(found) else "does not hold", "; ".join([count, *lines]))

    return decide


def _steady(choice: Choice) -> list[Place]:
    return [(dataset, dynamics) for dataset in choice.datasets_of(DATASETS) for dynamics in STEADY]


def _sine(choice: Choice) -> list[Place]:
    return [(dataset, "sine") for dataset in choice.datasets_of(DATASETS)]


def _periodic(choice: Choice) -> list[Place]:
    return [(dataset, dynamics) for dataset in choice.datasets_of(_PERIODIC_SETS) for dynamics in PERIODIC]


def _test(measured: Measurements, cell: Cell) -> float:
    score = measured.score(cell, "test_accuracy")
    return math.nan if score is None else score.mean


def _scores(measured: Measurements, cells: Iterable[Cell]) -> dict[str, float]:
    scores = {label(cell): _test(measured, cell) for cell in cells}
    return {name: score for name, score in scores.items() if not math.isnan(score)}


def _beats(ours: dict[str, float], theirs: dict[str, float]) -> Finding | None:
    """The best of ours above the best of theirs; all of theirs must have been measured by the caller."""
    if not ours or not theirs:
        return None
    (a, x), (b, y) = (max(scores.items(), key=lambda item: item[1]) for scores in (ours, theirs))
    return Finding(x > y, f"{a} {x:.1f}, best other {b} {y:.1f}")


def _unaided(choice: Choice, place: Place, **variation: float) -> list[Cell]:
    return [choice.cell(*place, row, **variation) for row in ROWS if row[0] not in ("fedswe", *AIDED)]


def _fedswe(choice: Choice, place: Place, ks: Sequence[float] = (0.0, 100.0), **variation: float) -> list[Cell]:
    return [choice.cell(*place, ("fedswe", k), **variation) for k in ks]


# Table 2 ---------------------------------------------------------------------------------------------------
def _beats_unaided(choice: Choice, measured: Measurements, place: Place) -> Finding | None:
    theirs = _scores(measured, _unaided(choice, place))
    if len(theirs) < len(_unaided(choice, place)):
        return None
    return _beats(_scores(measured, _fedswe(choice, place)), theirs)


def _interpolation_helps(choice: Choice, measured: Measurements, place: Place) -> Finding | None:
    plain, interpolated = (_test(measured, cell) for cell in _fedswe(choice, place))
    if math.isnan(plain) or math.isnan(interpolated):
        return None
    return Finding(interpolated > plain, f"k = 100 {interpolated:.1f}, k = 0 {plain:.1f}")


def _all_is_worst(choice: Choice, measured: Measurements, place: Place) -> Finding | None:
    cells = [choice.cell(*place, row) for row in ROWS]
    scores = _scores(measured, cells)
    if len(scores) < len(cells):
        return None
    worst = scores.pop("FedAvg, all")
    name, next_worst = min(scores.items(), key=lambda item: item[1])
    return Finding(worst <= next_worst - 4, f"FedAvg, all {worst:.1f}, next {name} {next_worst:.1f}")


def _above_fedavg(choice: Choice, measured: Measurements, place: Place) -> Finding | None:
    a, b = choice.cell(*place, ("fedswe", 0.0)), choice.cell(*place, ("fedavg", 0.0))
    margins = measured.paired(a, b, "test_accuracy")
    if not margins:
        return None
    each = ", ".join(f"{margin:+.1f}" for margin in margins)
    return Finding(float(np.mean(margins)) > 0, f"k = 0 minus FedAvg {np.mean(margins):+.1f} (by seed {each})")


def _against(other: str) -> Look:
    def look(choice: Choice, measured: Measurements, place: Place) -> Finding | None:
        theirs = _scores(measured, [choice.cell(*place, (other, 0.0))])
        return _beats(_scores(measured, _fedswe(choice, place)), theirs)

    return look


def _somewhere(look: Look, places: Callable[[Choice], list[Place]]) -> Callable[[Choice, Measurements], Verdict]:
    """For claims that something happens occasionally."""

    def decide(choice: Choice, measured: Measurements) -> Verdict:
        verdict = _over(look, places)(choice, measured)
        if verdict.status == "does not hold" and not verdict.evidence.startswith("in 0 of"):
            return Verdict("holds", verdict.evidence)
        return verdict

    return decide


# Tables 7, 8, 9, figure 3 ------------------------------------------------------------------------------------
def _no_slowdown(choice: Choice, measured: Measurements, place: Place) -> Finding | None:
    a, b = choice.cell(*place, ("fedswe", 0.0)), choice.cell(*place, ("fedavg", 0.0))
    holds, words = True, []
    for target in slowdown.targets_of(place[0]):
        ours, theirs = (slowdown.first_round(cell, measured, target) for cell in (a, b))
        if ours is None or theirs is None:
            return None
        if math.isfinite(theirs.mean):
            holds &= ours.mean <= _PATIENCE * theirs.mean
            words.append(f"{target} % after {ours.mean:.0f} (FedAvg {theirs.mean:.0f})")
    return Finding(holds, ", ".join(words)) if words else None


def _beats_unaided_varied(name: str, values: Sequence[float]) -> Look:
    def look(choice: Choice, measured: Measurements, place: Place) -> Finding | None:
        found = []
        for value in values:
            rivals = [c for c in _unaided(choice, place, **{name: value}) if c.algorithm != "gfedavg"]
            theirs = _scores(measured, rivals)
            finding = _beats(_scores(measured, _fedswe(choice, place, (0.0,), **{name: value})), theirs)
            if finding is None or len(theirs) < len(rivals):
                return None
            found.append((value, finding))
        numbers = ", ".join(f"{name} {value:g}: {finding.numbers}" for value, finding in found)
        return Finding(all(finding.holds for _, finding in found), numbers)

    return look


def _deeper_sine_hurts(choice: Choice, measured: Measurements, place: Place) -> Finding | None:
    """At the smallest p, where availability is scarce."""
    p = motivating.PROBABILITIES[0]
    scores = [_test(measured, motivating.line(choice, place[0], p, gamma)) for gamma in motivating.GAMMAS]
    if any(map(math.isnan, scores)):
        return None
    listed = ", ".join(f"gamma {g:g} {s:.1f}" for g, s in zip(motivating.GAMMAS, scores, strict=True))
    return Finding(scores[-1] < scores[0], f"p = {p:g}: {listed}")


# figures 6 to 12 -----------------------------------------------------------------------------------------------
def _consensus_tail(measured: Measurements, cell: Cell) -> float:
    tail = cell.experiment().evaluate.tail
    return float(np.mean([run.history.tail_mean("consensus_clients", tail) for run in measured.of(cell)] or [math.nan]))


def _consensus_by_k(choice: Choice, measured: Measurements, place: Place) -> dict[float, float]:
    found = {cell.k: _consensus_tail(measured, cell) for cell in periodic.sweep(choice, *place)}
    return {k: error for k, error in found.items() if not math.isnan(error)}


def _fails_at_zero(choice: Choice, measured: Measurements, place: Place) -> Finding | None:
    """Growing where it should shrink: the error of the last rounds above that of the first periods."""
    runs = measured.of(choice.cell(*place, ("fedswe", 0.0)))
    if not runs:
        return None
    early, late = [], []
    for run in runs:
        error = run.history["consensus_clients"][1:]
        early.append(error[: max(1, len(error) // 10)].mean())
        late.append(error[-max(1, len(error) // 10) :].mean())
    a, b = float(np.mean(early)), float(np.mean(late))
    return Finding(b > a, f"error {a:.3g} at first, {b:.3g} at the end")


def _improves_with_k(choice: Choice, measured: Measurements, place: Place) -> Finding | None:
    errors = _consensus_by_k(choice, measured, place)
    if len(errors) < 2:
        return None
    values = [errors[k] for k in sorted(errors)]
    listed = ", ".join(f"k = {k:g} {errors[k]:.3g}" for k in sorted(errors))
    return Finding(all(b < a for a, b in pairwise(values)), listed)


def _listed(scores: dict[float, float], digits: int) -> str:
    return ", ".join(f"k = {k:g} {'never' if math.isinf(s) else f'{s:.{digits}f}'}" for k, s in sorted(scores.items()))


def _peaks_near_m(choice: Choice, measured: Measurements, place: Place) -> Finding | None:
    scores = {k: score.mean for k, score in periodic.by_k(choice, measured, *place).items()}
    if len(scores) < len(choice.scale.ks):
        return None
    best, m = max(scores, key=lambda k: scores[k]), choice.scale.clients
    return Finding(m / 2 <= best <= 2 * m, f"best at k = {best:g}; {_listed(scores, 1)}")


def _shrink_then_grow(choice: Choice, measured: Measurements, place: Place) -> Finding | None:
    found = {}
    for cell in periodic.sweep(choice, *place):
        rounds = [math.inf if math.isnan(r) else r for r in measured.rounds_to(cell, choice.scale.target)]
        if not rounds:
            return None
        found[cell.k] = float(np.mean(rounds))
    if not any(map(math.isfinite, found.values())):
        return Finding(False, f"{100 * choice.scale.target:.0f} % never reached for any k")
    best = min(found, key=lambda k: found[k])
    inner = min(found) < best < max(found) and found[max(found)] > found[best] < found[min(found)]
    return Finding(inner, f"rounds to {100 * choice.scale.target:.0f} %: {_listed(found, 0)}")


def _best_periodic(choice: Choice, measured: Measurements, place: Place) -> Finding | None:
    baselines = [choice.cell(*place, row) for row in periodic.BASELINES]
    theirs = _scores(measured, baselines)
    if len(theirs) < len(baselines):
        return None
    return _beats(_scores(measured, _fedswe(choice, place, (100.0,))), theirs)


def _best_periodic_same_model(choice: Choice, measured: Measurements, place: Place) -> Finding | None:
    """The same with every method judged by the client mean."""
    cells = [choice.cell(*place, row) for row in (("fedswe", 100.0), *periodic.BASELINES)]
    scores = {label(cell): measured.score(cell, "test_accuracy", "client_mean") for cell in cells}
    if any(score is None for score in scores.values()):
        return None
    known = {name: score.mean for name, score in scores.items() if score is not None}
    ours = label(cells[0])
    return _beats({ours: known.pop(ours)}, known)


def _smoother_than_zero(choice: Choice, measured: Measurements, place: Place) -> Finding | None:
    swings = []
    for cell in _fedswe(choice, place):
        tail = cell.experiment().evaluate.tail
        runs = [run.history for run in measured.of(cell)]
        late = [[row["server_test_accuracy"] for row in h.rows if row["round"] > h.last["round"] - tail] for h in runs]
        if not late:
            return None
        swings.append(100 * float(np.mean([np.std(values) for values in late])))
    return Finding(swings[1] < swings[0], f"server model swings by {swings[1]:.1f} points (k = 0: {swings[0]:.1f})")


Decide = Callable[[Choice, Measurements], Verdict]

DECISIONS: dict[str, Decide] = {
    "fedswe-beats-unaided": _over(_beats_unaided, _steady),
    "k100-beats-k0": _over(_interpolation_helps, _steady),
    "fedavg-all-worst": _over(_all_is_worst, _steady),
    "k0-above-fedavg": _over(_above_fedavg, _steady),
    "sometimes-beats-mifa": _somewhere(_against("mifa"), _steady),
    "competitive-with-known": _somewhere(_against("fedavg_known"), _steady),
    "no-slowdown": _over(_no_slowdown, _sine),
    "every-gamma": _over(_beats_unaided_varied("gamma", accuracy_tables.GAMMAS), lambda c: _first(c)),
    "every-alpha": _over(_beats_unaided_varied("alpha", accuracy_tables.ALPHAS), lambda c: _first(c)),
    "non-stationarity-hurts": _over(_deeper_sine_hurts, lambda c: _first(c)),
    "consensus-fails-at-zero": _over(_fails_at_zero, _periodic),
    "consensus-improves-with-k": _over(_improves_with_k, _periodic),
    "accuracy-peaks-near-m": _over(_peaks_near_m, _periodic),
    "rounds-shrink-then-grow": _over(_shrink_then_grow, _periodic),
    "k100-beats-baselines": _over(_best_periodic, _periodic),
    "k100-beats-baselines-same-model": _over(_best_periodic_same_model, _periodic),
    "k100-smoother": _over(_smoother_than_zero, _periodic),
}


def _first(choice: Choice) -> list[Place]:
    return [(dataset, "sine") for dataset in choice.datasets_of(["svhn"])]
