"""How fast do the clients mix, for which k?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedswe.analysis.report import Column, Report, general, interval, or_else, short, table
from fedswe.analysis.scenario import Scenario
from fedswe.availability.schedule import Bools, Floats
from fedswe.errors import FedsweError, require
from fedswe.plotting import BLUE, GREY, ORANGE, count_axis, format_axes, reference_line
from fedswe.theory.assumption import window_delta
from fedswe.theory.mixing import (
    MixingEstimate,
    check_interpolation,
    realised_rho,
    rho,
    rho_from_windows,
    rho_limit,
    rho_monte_carlo,
)
from fedswe.theory.spectral import (
    block_bound,
    block_bound_printed,
    single_round_bound,
    single_round_bound_printed,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SIZE = (4.6, 3.0)
_EXACT = 2e7  # clients squared times rounds of all different windows: beyond it, simulation is faster
_DRAWS = 1000
_ROUNDING = 1e-12  # error of the exact rho_k


@dataclass(frozen=True)
class Mixing:
    """rho_k of the worst window, exact or estimated."""

    k: float
    rho: float
    estimate: MixingEstimate | None = None  # when it is not exact
    realised: float | None = None  # for a trace: the value of its worst window


def mixing_of(scenario: Scenario, ks: Sequence[float], window: int, draws: int, confidence: float) -> list[Mixing]:
    """rho_k for every k; with draws = 0 it is exact where that is fast enough, otherwise simulated."""
    require(len(ks), "--k is empty: give at least one number, e.g. --k 0,1,10")
    for k in ks:
        check_interpolation(scenario.m, k)
    require(draws >= 0, f"--draws must be 0 (choose) or positive, not {draws}")
    if scenario.known == "trace":
        require(draws == 0, "--draws simulates windows, but the windows of a trace are given: leave it out")
        return [_of_trace(_windows(scenario, window), k, confidence) for k in ks]
    seed = scenario.experiment.seed
    if scenario.known == "chains":
        windows = np.ascontiguousarray(scenario.copies(window, draws or _DRAWS).transpose(1, 0, 2))
        estimates = [rho_from_windows(windows, k, seed, confidence) for k in ks]
        return [Mixing(k, e.rho, e) for k, e in zip(ks, estimates, strict=True)]
    different = _different_windows(scenario, window)
    if draws == 0 and len(different) * window * scenario.m**2 <= _EXACT:
        exact = [max(rho(w, k) for w in different) for k in ks]
        return [Mixing(k, value if value > _ROUNDING else 0.0) for k, value in zip(ks, exact, strict=True)]
    worst = [_worst(different, k, draws or _DRAWS, seed, confidence) for k in ks]
    return [Mixing(k, e.rho, e) for k, e in zip(ks, worst, strict=True)]


def _worst(windows: Floats, k: float, draws: int, seed: int, confidence: float) -> MixingEstimate:
    """The largest rho of several windows; each interval gets a part of the error, so that all hold at once."""
    each = 1 - (1 - confidence) / len(windows)
    estimates = [rho_monte_carlo(w, k, draws, seed, each) for w in windows]
    lower, upper = max(e.lower for e in estimates), max(e.upper for e in estimates)
    return MixingEstimate(max(e.rho for e in estimates), lower, upper, confidence, draws)


def _windows(scenario: Scenario, window: int) -> Bools:
    number = scenario.horizon // window
    require(
        number >= 4,
        f"windows of {window} rounds in the trace: {number}, too few for an interval; give a --period "
        f"of at most {scenario.horizon // 4}",
    )
    return scenario.trace[: number * window].reshape(number, window, scenario.m)


def _of_trace(windows: Bools, k: float, confidence: float) -> Mixing:
    estimate = rho_from_windows(windows, k, 0, confidence)
    return Mixing(k, estimate.rho, estimate, max(realised_rho(w, k) for w in windows))


def mixing_report(
    scenario: Scenario, ks: Sequence[float], period: int | None, draws: int, confidence: float
) -> Report:  # fmt: skip
    """rho_k for every k with the spectral bounds, and the limit of large k."""
    window = scenario.window(period)
    found = mixing_of(scenario, ks, window, draws, confidence)
    limit = _limit(scenario, window)
    percent = f"{100 * confidence:g} %"
    values: dict[str, Any] = {
        "period": window,
        "rho": [
            {
                "k": f.k,
                "rho": f.rho,
                "interval": None if f.estimate is None else [f.estimate.lower, f.estimate.upper],
                "realised_worst_window": f.realised,
                "rounds_to_halve": _rounds_to_halve(f.rho, window),
                **_bounds(scenario, f.k, window),
            }
            for f in found
        ],
        "limit_of_large_k": limit,
    }
    rows: list[dict[str, Any]] = values["rho"]
    columns: list[Column] = [("k", "k", general), ("rho_k", "rho")]
    if found[0].estimate is not None:
        columns.append((f"{percent} interval", "interval", interval))
    if found[0].realised is not None:
        columns.append(("worst window", "realised_worst_window"))
    columns.append(("rounds to halve", "rounds_to_halve", or_else("never")))
    if any(row["bound"] is not None for row in rows):
        columns.append(("spectral bound", "bound", _bound))
    if any(row["bound"] != row["bound_as_printed"] for row in rows):
        columns.append(("as printed", "bound_as_printed", _bound))
    last = [] if limit is None else [{"k": math.inf, "rho": limit, "rounds_to_halve": _rounds_to_halve(limit, window)}]
    title = f"rho_k = lambda_2(E[W W^T]) over windows of {window} round{'s' if window > 1 else ''}"

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        axes.plot(ks, [row["rho"] for row in rows], "o-", color=BLUE, markersize=4, label=r"$\rho_k$")
        if found[0].estimate is not None:
            low, high = zip(*(row["interval"] for row in rows), strict=True)
            axes.fill_between(ks, low, high, color=BLUE, alpha=0.15, linewidth=0, label=f"{percent} interval")
        if found[0].realised is not None:
            worst = [row["realised_worst_window"] for row in rows]
            axes.plot(ks, worst, "s--", color=ORANGE, markersize=4, label="worst window of the trace")
        if limit is not None:
            reference_line(axes, limit, "k → ∞", GREY)
        count_axis(axes, zero=True)
        top = max(row["rho"] if row["interval"] is None else row["interval"][1] for row in rows)
        axes.set_ylim(0, min(1.03, 1.3 * top) or 1.03)
        format_axes(axes, f"{scenario.name}, {scenario.m} clients, windows of {window} rounds", "k", r"$\rho_k$")

    return Report(values, draw, _SIZE, [table(title, [*rows, *last], columns)], _notes(scenario, found, percent))


def _different_windows(scenario: Scenario, window: int) -> Floats:
    """The windows of the probabilities that differ [n, window, m]."""
    return np.unique(scenario.prob[: scenario.horizon // window * window].reshape(-1, window, scenario.m), axis=0)


def _limit(scenario: Scenario, window: int) -> float | None:
    if scenario.known != "probabilities":
        return None
    return max(rho_limit(w) for w in _different_windows(scenario, window))


def _bounds(scenario: Scenario, k: float, window: int) -> dict[str, dict[str, float] | None]:
    """The corrected bound and the printed one; None where they do not apply."""
    none = {"bound": None, "bound_as_printed": None}
    if scenario.known != "probabilities" or (window > 1 and k == 0):
        return {**none}
    try:
        delta = window_delta(scenario.prob, window)
    except FedsweError:
        return {**none}
    if window == 1:
        both = single_round_bound(scenario.m, k, delta), single_round_bound_printed(scenario.m, k, delta)
    else:
        both = block_bound(scenario.m, k, delta, window), block_bound_printed(scenario.m, k, delta, window)
    return dict(zip(none, map(asdict, both), strict=True))


def _rounds_to_halve(rate: float, window: int) -> float:
    """Each window multiplies the consensus error by at most rho in expectation, when no gradients are added."""
    if rate >= 1 - 1e-9:
        return math.inf
    return window * math.log(2) / -math.log(rate) if rate > 0 else 0.0


def _bound(bound: dict[str, float] | None) -> str:
    if bound is None:
        return short(None)
    exponent = bound["log_gap"] / math.log(10)
    return f"1 - 10^{exponent:.1f}" if exponent < -8 else short(bound["bound"])


def _notes(scenario: Scenario, found: Sequence[Mixing], percent: str) -> list[str]:
    halving = "rounds to halve the consensus error, at least that fast in expectation when no gradients are added"
    draws = found[0].estimate.draws if found[0].estimate is not None else 0
    if scenario.known == "trace":
        return [
            f"rho_k assumes that the {draws} windows of the trace are independent draws of one distribution; "
            "the worst window is exact",
            halving,
        ]
    if scenario.known == "chains":
        return [
            f"from {draws} simulated windows; successive windows depend on each other, so n windows do not contract "
            "by rho_k to the power n"
        ]
    if draws:
        return [f"from {draws} simulated windows, {percent} interval", halving]
    return [halving]
