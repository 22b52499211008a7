"""Claims about Figures 2, 4, 5 and 15, bias, speed-up, memory and computation: decided from exact numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import permutations
from typing import Any

import numpy as np

from fedswe.algorithms.fedavg import FedAvg
from fedswe.algorithms.fedswe import FedSWE
from fedswe.core.algorithm import Algorithm
from fedswe.core.footprint import Footprint, Operations, footprint, operations
from fedswe.theory.assumption import FloatArray
from fedswe.theory.limits import (
    ExpectedLimit,
    fedavg_active_limit,
    fedavg_bias_map,
    fedswe_limit,
    fedswe_trace_limit,
    visit_step,
)  # fmt: skip
from fedswe.theory.moments import NoisyQuadratics, mean_errors, rounds_needed
from fedswe_paper.illustrations import alternating_runs, base_probabilities, mixing
from fedswe_paper.margin import Finding, Margin, combined, exact
from fedswe_paper.recipes.speedup import CLIENTS, FIXED_CLIENTS, FIXED_STEPS, SIGMA, SPREAD, STEPS

_P = np.linspace(0, 1, 101)  # of the clients of Figure 2
_FAR = 10.0  # of the 100 between the two optima; the paper gives no number
_NEARLY = 0.05  # counts as 0; the paper gives no number
_WINDOW = 20  # rounds of the two groups of Figure 4
_RATES = (0.1, 0.01, 0.001)  # local rates of Figure 5's example, one step; the paper names none
_SMALL_RATES = (0.01, 0.001, 0.0001)  # of Example 1, at which a bias that does not vanish shows
_LINEAR = 90.0  # percent of a linear speed-up
_TARGETS = (0.003, 0.0003, 0.00003)  # the smaller, the more rounds: the remark is for T large enough
_LIGHT = 2.0  # models; the paper says light, and O(d)
_LOCAL_STEP = 6.0  # operations per parameter: a dense layer's share in a gradient of one sample; the paper says light
_MORE_MODELS = "models kept in addition to FedAvg's, negated"
_MORE_OPERATIONS = "operations per parameter in addition to FedAvg's, negated"
_OPTIMA = (100.0, -100.0)  # of Figure 5
_EXAMPLE = (0.0, 100.0)  # those of Example 1


def _found(margins: Sequence[Margin], place: str = "", note: str = "") -> Finding:
    return Finding(combined([margin.status for margin in margins], len(margins)), tuple(margins), note, place)


def far_from_optimum(p: FloatArray, distance: FloatArray) -> list[Finding]:
    """The share of pairs p_1 ≠ p_2 that end further than _FAR from the optimum."""
    different = (p[:, None] != p[None, :]) & np.isfinite(distance)
    share = 100 * float((distance[different] > _FAR).mean())
    what = f"share of the pairs (p_1, p_2) that end more than {_FAR:g} from the optimum, of at most 50"
    return [_found([exact(what, share, 50.0, "%")])]


def rho_falls_with_k(curves: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """Strictly, except for p = 1, where it is 0."""
    for curve in curves:
        rho = np.asarray(curve["rho"])
        ends = f"{abs(rho[0]):.3f} at k = 0, {abs(rho[-1]):.3f} at k = {len(rho) - 1}"
        if np.all(np.asarray(curve["p"]) == 1.0):
            margin = exact("rho_k, negated, up to rounding", -float(np.abs(rho).max()), -1e-9)
        else:
            margin = exact("smallest fall of rho_k from one k to the next", float(-np.diff(rho).max()), 0.0)
        yield _found([margin], _p(curve["p"]), ends)


def rho_falls_with_availability(curves: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """For every k from 1, from each curve to the next that has a larger p throughout."""
    for rarer, oftener in permutations(curves, 2):
        between = any(_below(rarer, curve) and _below(curve, oftener) for curve in curves)
        if _below(rarer, oftener) and not between:
            gap = np.asarray(rarer["rho"])[1:] - np.asarray(oftener["rho"])[1:]
            margin = exact("smallest fall of rho_k over k from 1", float(gap.min()), 0.0)
            yield _found([margin], f"{_p(oftener['p'])} after {_p(rarer['p'])}")


def at_most(limit: float, what: str, by_place: Mapping[str, float]) -> list[Finding]:
    """No value above the limit."""
    return [_found([exact(what, -value, -limit)], place) for place, value in by_place.items()]


def rho_vanishes(curves: Sequence[dict[str, Any]]) -> list[Finding]:
    limits = {_p(curve["p"]): float(curve["limit"]) for curve in curves}
    return at_most(_NEARLY, "limit of rho_k for k to infinity, negated", limits)


def turns_mix_worse(one_round: Sequence[dict[str, Any]], turns: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    """Two groups in turns against all clients in every round, with the same p, over equally many rounds."""
    alone = {curve["p"]: np.asarray(curve["rho"]) for curve in one_round}
    for curve in turns:
        first, second = curve["p"]
        if first == second and first in alone:
            gap = np.asarray(curve["rho"]) - alone[first] ** _WINDOW
            what = f"smallest excess of rho_k of two groups in turns over that of all in every round, {_WINDOW} rounds"
            yield _found([exact(what, float(gap.min()), 0.0)], f"p = {first:g}")


def _below(one: dict[str, Any], other: dict[str, Any]) -> bool:
    p, q = np.atleast_1d(one["p"]), np.atleast_1d(other["p"])
    return bool((p <= q).all() and (p < q).any())


def cycles(run: dict[str, Any]) -> list[Finding]:
    """The limit of the server's model, round by round: the clients' optima in turn."""
    limit = np.asarray(run["cycle"])
    distance = float(np.abs(limit - np.asarray(_OPTIMA)).max())
    apart = 100 * float(np.ptp(run["clients"][:, -1])) / float(np.ptp(_OPTIMA))
    margins = [
        exact("distance of x^t's two limits from the clients' optima, negated", -distance, -1e-6),
        exact("distance of the clients in the last round drawn, of that between their optima", apart, 90.0, "%"),
    ]
    return [_found(margins, note=f"x^t alternates between {limit[0]:.4g} and {limit[1]:.4g}")]


def _shrinking(what: str, left: Sequence[float], rates: Sequence[float]) -> list[Margin]:
    """A tenth of the rate removes more than half of what is left."""
    return [
        exact(f"part of {what} that goes when the rate falls from {a:g} to {b:g}", 100 * (1 - y / x), 50.0, "%")
        for a, b, x, y in zip(rates, rates[1:], left, left[1:], strict=False)
    ]


def unbiased(
    left: Mapping[str, Sequence[float]], rates: Sequence[float], fedavg: Mapping[str, float]
) -> Iterator[Finding]:
    """By place, the largest distance of the expected server model from the optimum, by rate."""
    for place, distances in left.items():
        listed = ", ".join(f"{x:.3g} at rate {rate:g}" for rate, x in zip(rates, distances, strict=True))
        note = f"largest distance {listed}; FedAvg's is {fedavg[place]:.3g} at rate {rates[-1]:g}"
        yield _found(_shrinking("the largest distance from the optimum", distances, rates), place, note)


def vanishes(left: Sequence[float], rates: Sequence[float]) -> list[Finding]:
    """The cycle that is left shrinks with the rate."""
    margins = _shrinking("the cycle", left, rates)
    listed = ", ".join(f"±{x:.3g} at rate {rate:g}" for rate, x in zip(rates, left, strict=True))
    return [_found(margins, note=f"server model and clients {listed} around the optimum, of ±{_OPTIMA[0]:g} for k = 0")]


def mostly_rare(base: FloatArray) -> list[Finding]:
    share = 100 * float((base < 0.5).mean())
    return [_found([exact("share of the clients with p_i below 0.5", share, 50.0, "%")])]


def linear(rounds: Mapping[float, float], what: str, sizes: tuple[int, int]) -> list[Finding]:
    """At the smallest target, that is for the largest T: rounds saved by the larger size, of a linear speed-up."""
    shares = {target: 100 * ratio * sizes[0] / sizes[1] for target, ratio in rounds.items()}
    smallest = min(shares)
    listed = ", ".join(f"{share:.0f} % at target {target:g}" for target, share in shares.items())
    title = f"speed-up from {sizes[0]} to {sizes[1]} {what}, of a linear one, at target {smallest:g}"
    return [_found([exact(title, shares[smallest], _LINEAR, "%")], what, listed)]


def _p(p: Any) -> str:
    return f"p = {p:g}" if np.ndim(p) == 0 else f"p = ({', '.join(f'{each:g}' for each in p)}) in turns"


def _bias_of_fedswe() -> Iterator[Finding]:
    """Example 1 with pairs of different p: constant, swapped every round, and the clients in turns."""
    pairs = list(permutations((0.1, 0.3, 0.5, 0.7, 0.9, 1.0), 2))
    constant = [[pair] for pair in pairs]
    swapped = [[pair, pair[::-1]] for pair in pairs]
    turns = [[(first, 0.0)] * 5 + [(0.0, second)] * 5 for first, second in pairs]
    cases = {
        "p constant, k = 0": (0.0, constant),
        "p constant, k = 2": (2.0, constant),
        "p swapped every round, k = 0": (0.0, swapped),
        "p swapped every round, k = 2": (2.0, swapped),
        "in turns of five rounds, k = 2": (2.0, turns),
    }
    optima = np.asarray(_EXAMPLE)

    def furthest(limits: Sequence[ExpectedLimit]) -> float:
        return max(float(np.abs(limit.server @ optima - optima.mean()).max()) for limit in limits)

    steps, left, fedavg = [visit_step(rate, 1) for rate in _SMALL_RATES], {}, {}
    for place, (k, tables) in cases.items():
        left[place] = [furthest([fedswe_limit(table, step, k) for table in tables]) for step in steps]
        fedavg[place] = furthest([fedavg_active_limit(table, steps[-1]) for table in tables])
    return unbiased(left, _SMALL_RATES, fedavg)


def _interpolated() -> list[Finding]:
    cycles = [fedswe_trace_limit(np.eye(2), visit_step(rate, 1), k=1).server @ _OPTIMA for rate in _RATES]
    return vanishes([float(cycle[0]) for cycle in cycles], _RATES)


def _speedups() -> list[Finding]:
    """Everybody available, k = m: rounds of the first size over those of the second, by target."""

    def needed(target: float, m: int, s: int) -> float:
        return rounds_needed(target, clients=m, steps=s, p=1.0, k=m, sigma=SIGMA, spread=SPREAD)

    clients, steps = (CLIENTS[0], CLIENTS[-1]), (STEPS[0], STEPS[-1])
    by_clients = {t: needed(t, clients[0], FIXED_STEPS) / needed(t, clients[1], FIXED_STEPS) for t in _TARGETS}
    by_steps = {t: needed(t, FIXED_CLIENTS, steps[0]) / needed(t, FIXED_CLIENTS, steps[1]) for t in _TARGETS}
    return [*linear(by_clients, "clients", clients), *linear(by_steps, "local steps", steps)]


def _agreement() -> list[Finding]:
    """Everybody available, k = m: the consensus error, for the fewest and the most clients and steps."""
    errors = {}
    for m, s in ((CLIENTS[0], FIXED_STEPS), (CLIENTS[-1], FIXED_STEPS), (FIXED_CLIENTS, STEPS[-1])):
        problem = NoisyQuadratics(m, 1.0, m, 0.01, 1.0, s, sigma=SIGMA, spread=SPREAD, start=0.0)
        errors[f"m = {m}, s = {s}"] = mean_errors(problem, 1000).consensus
    return at_most(1e-9, "consensus error, negated, up to rounding", errors)


def additional(counted: Callable[[Algorithm, int], Footprint | Operations]) -> dict[str, float]:
    """What FedSWE has more of than FedAvg, per parameter."""
    d = 10**6
    ours, plain = counted(FedSWE(k=100.0), d), counted(FedAvg(), d)
    return {"server": (ours.server - plain.server) / d, "each client": (ours.client - plain.client) / d}


EXACT: dict[str, Callable[[], Iterable[Finding]]] = {  # by the id of the claim
    "bias-of-fedavg": lambda: far_from_optimum(_P, fedavg_bias_map(_P, _P)),
    "fedswe-is-unbiased": _bias_of_fedswe,
    "rho-falls-with-k": lambda: [f for part in mixing() for f in rho_falls_with_k(part)],
    "rho-falls-with-availability": lambda: [f for part in mixing() for f in rho_falls_with_availability(part)],
    "rho-vanishes-for-large-k": lambda: [f for part in mixing() for f in rho_vanishes(part)],
    "turns-mix-worse": lambda: turns_mix_worse(*mixing()),
    "k0-cycles-between-optima": lambda: cycles(alternating_runs()[0]),
    "k1-recovers-the-optimum": _interpolated,
    "linear-speedup": _speedups,
    "linear-speedup-of-consensus": _agreement,
    "light-memory": lambda: at_most(_LIGHT, _MORE_MODELS, additional(footprint)),
    "light-computation": lambda: at_most(_LOCAL_STEP, _MORE_OPERATIONS, additional(operations)),
    "most-clients-are-rare": lambda: mostly_rare(base_probabilities()),
}


@cache
def exact_findings(claim: str) -> tuple[Finding, ...]:
    return tuple(EXACT[claim]())
