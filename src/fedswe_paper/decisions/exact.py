"""Claims about Figures 2, 4, 5 and 15, which need no training: decided from the exact numbers behind them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import permutations
from typing import Any

import numpy as np

from fedswe.theory.assumption import FloatArray
from fedswe.theory.counterexample import two_group_cycle
from fedswe.theory.limits import visit_step
from fedswe_paper.decisions.verdict import Decide, Finding, exactly
from fedswe_paper.illustrations import base_probabilities
from fedswe_paper.theory_figures import figure_report

_FAR = 10.0  # of the 100 between the two optima; the paper gives no number
_SMALL = 0.01  # of the swing without interpolation: what no eye sees in the figure
_OPTIMA = (100.0, -100.0)  # of Figure 5


def far_from_optimum(p: FloatArray, distance: FloatArray) -> list[Finding]:
    """The share of pairs p_1 ≠ p_2 that end further than _FAR from the optimum."""
    different = (p[:, None] != p[None, :]) & np.isfinite(distance)
    share = float((distance[different] > _FAR).mean())
    numbers = f"{100 * share:.0f} % of the pairs end more than {_FAR:g} from the optimum (at most 50 is possible)"
    return [Finding(share > 0.5, numbers)]


def rho_falls_with_k(curves: Sequence[dict[str, Any]]) -> list[Finding]:
    """Strictly, except for p = 1, where it is 0."""
    found = []
    for curve in curves:
        rho = np.asarray(curve["rho"])
        always = bool(np.all(np.asarray(curve["p"]) == 1.0))
        holds = bool(np.allclose(rho, 0, atol=1e-9) if always else (np.diff(rho) < 0).all())
        found.append(Finding(holds, f"{abs(rho[0]):.3f} at k = 0, {abs(rho[-1]):.3f} at k = 50 for {_p(curve['p'])}"))
    return found


def rho_falls_with_availability(curves: Sequence[dict[str, Any]]) -> list[Finding]:
    """For every k from 1, from each curve to the next that has a larger p throughout."""
    found = []
    for rarer, oftener in permutations(curves, 2):
        between = any(_below(rarer, curve) and _below(curve, oftener) for curve in curves)
        if _below(rarer, oftener) and not between:
            gap = np.asarray(rarer["rho"])[1:] - np.asarray(oftener["rho"])[1:]
            numbers = f"{gap.min():.2g} to {gap.max():.2g} less for {_p(oftener['p'])} than for {_p(rarer['p'])}"
            found.append(Finding(bool((gap > 0).all()), numbers))
    return found


def _below(one: dict[str, Any], other: dict[str, Any]) -> bool:
    p, q = np.atleast_1d(one["p"]), np.atleast_1d(other["p"])
    return bool((p <= q).all() and (p < q).any())


def cycles(run: dict[str, Any]) -> list[Finding]:
    """The limit of the server's model, round by round: the clients' optima in turn."""
    limit, gap = np.asarray(run["cycle"]), float(np.ptp(run["clients"][:, -1]))
    numbers = (
        f"x^t alternates between {limit[0]:.4g} and {limit[1]:.4g}; clients {gap:.4g} apart in the last round drawn"
    )
    settled = gap > 0.9 * np.ptp(_OPTIMA)
    return [Finding(bool(np.allclose(limit, _OPTIMA) and settled), numbers)]


def settles(run: dict[str, Any], slower: float) -> list[Finding]:
    """The cycle that is left is small, and vanishes with the rate: `slower` is what a tenth of the rate leaves."""
    left, gap = float(np.abs(run["cycle"]).max()), float(np.ptp(run["clients"][:, -1]))
    small = left <= _SMALL * max(_OPTIMA) and gap <= _SMALL * np.ptp(_OPTIMA)
    numbers = f"±{left:.3g} around the optimum, clients {gap:.3g} apart; ±{slower:.3g} with a tenth of the rate"
    return [Finding(bool(small and slower < 0.2 * left), numbers)]


def mostly_rare(base: FloatArray) -> list[Finding]:
    below = int((base < 0.5).sum())
    return [Finding(below > len(base) / 2, f"{below} of {len(base)} clients below 0.5")]


def _p(p: Any) -> str:
    return f"p = {p:g}" if np.ndim(p) == 0 else f"p = ({', '.join(f'{each:g}' for each in p)}) in turns"


@cache
def _values(figure: int) -> dict[str, Any]:
    return figure_report(figure).values


def _bias_map() -> list[Finding]:
    values = _values(2)
    return far_from_optimum(values["p"], values["distance"])


def _mixing() -> list[list[dict[str, Any]]]:
    """The curves of one round, and those of two groups in turns."""
    values = _values(4)
    return [values["one_round"], values["two_groups"]]


def _run_of_figure_5(k: int) -> dict[str, Any]:
    runs: list[dict[str, Any]] = _values(5)["runs"]
    return next(run for run in runs if run["k"] == k)


def _interpolated() -> list[Finding]:
    slower = two_group_cycle(_OPTIMA[:1], _OPTIMA[1:], visit_step(0.001, 1), k=1)
    return settles(_run_of_figure_5(1), float(slower.after_first))


EXACT_DECISIONS: dict[str, Decide] = {
    "bias-of-fedavg": exactly(_bias_map),
    "rho-falls-with-k": exactly(lambda: [f for part in _mixing() for f in rho_falls_with_k(part)]),
    "rho-falls-with-availability": exactly(
        lambda: [f for part in _mixing() for f in rho_falls_with_availability(part)]
    ),
    "k0-cycles-between-optima": exactly(lambda: cycles(_run_of_figure_5(0))),
    "k1-recovers-the-optimum": exactly(_interpolated),
    "most-clients-are-rare": exactly(lambda: mostly_rare(base_probabilities())),
}
