"""Is Assumption 1 satisfied, and with which window?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from fedswe.analysis.report import Column, Report, general, interval, or_else, short, table
from fedswe.analysis.scenario import Scenario
from fedswe.errors import require
from fedswe.plotting import BLUE, Corner, count_axis, format_axes, reference_line
from fedswe.theory.assumption import (
    check_delta,
    chernoff_lower,
    chernoff_upper,
    delta_max,
    delta_profile,
    pooled_trace_delta,
    smallest_period,
    trace_delta,
    trace_period,
    window_delta,
    window_means,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIZE = (4.6, 3.0)
_SMALLEST = "P_delta: the shortest window with that delta"
_OR_NONE = or_else("none")


def assumption_report(scenario: Scenario, deltas: Sequence[float], period: int | None, confidence: float) -> Report:
    """delta(P) for some windows P, and P_delta for some delta."""
    require(len(deltas), "--delta is empty: give at least one number, e.g. --delta 0.05,0.1")
    for delta in deltas:
        check_delta(delta)
    window = scenario.window(period)
    if scenario.known == "trace":
        return _of_trace(scenario, deltas, window, confidence)
    return _of_probabilities(scenario, deltas, window)


def _of_probabilities(scenario: Scenario, deltas: Sequence[float], window: int) -> Report:
    prob, profile = scenario.prob, delta_profile(scenario.prob)
    here = window_delta(prob, window)  # refuses a window in which a client has probability 0 throughout

    def rarest(period: int) -> int:
        return int(window_means(prob, period).min(axis=0).argmin())

    values: dict[str, Any] = {
        "period": window,
        "delta": here,
        "delta_max": delta_max(prob),
        "windows": [
            {"period": p, "windows": scenario.horizon // p, "delta": profile[p - 1], "client": rarest(p)}
            for p in _shown(scenario.horizon, window)
        ],
        "smallest_periods": [{"delta": d, "period": smallest_period(profile, d)} for d in deltas],
        "profile": profile,
    }
    title = "smallest mean probability of any client in any window"
    tables = [
        table(title, values["windows"], [("window P", "period"), "windows", ("delta(P)", "delta"), "client"]),
        table(_SMALLEST, values["smallest_periods"], [("delta", "delta", general), ("P_delta", "period", _OR_NONE)]),
    ]
    note = f"Assumption 1 holds with P = {window}, delta = {short(here)}; delta_max = {short(values['delta_max'])}"
    if scenario.known == "chains":
        note = (
            f"independent rounds with the same p_i would have P = {window}, delta = {short(here)}; "
            "see fedswe theory staleness"
        )

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        axes.plot(np.arange(1, len(profile) + 1), profile, color=BLUE, linewidth=1.2)
        axes.plot([window], [here], "o", color=BLUE, label=f"P = {window}: δ = {short(here)}")
        _finish(axes, scenario, deltas, float(profile.max()), "best")

    return Report(values, draw, _SIZE, tables, [note])


def _of_trace(scenario: Scenario, deltas: Sequence[float], window: int, confidence: float) -> Report:
    trace, profile = scenario.trace, delta_profile(scenario.trace)
    percent = f"{100 * confidence:g} %"

    def estimates(period: int) -> dict[str, Any]:
        return {
            "delta": asdict(trace_delta(trace, period, confidence)),
            "delta_if_windows_repeat": asdict(pooled_trace_delta(trace, period, confidence)),
        }

    values: dict[str, Any] = {
        "period": window,
        **estimates(window),
        "windows": [
            {"period": p, "windows": scenario.horizon // p, **estimates(p)} for p in _shown(scenario.horizon, window)
        ],
        "smallest_periods": [asdict(trace_period(trace, d, confidence)) for d in deltas],
        "profile": profile,
    }
    windows: list[Column] = [
        ("window P", "period"),
        "windows",
        ("in its worst window", "delta.delta"),
        (f"delta(P), {percent}", "delta", _ends),
        ("over all windows", "delta_if_windows_repeat.delta"),
        (f"if they repeat, {percent}", "delta_if_windows_repeat", _ends),
    ]
    found = {"in the trace": "period", "at least": "possible", "at most": "certified"}
    periods: list[Column] = [("delta", "delta", general), *((name, key, _OR_NONE) for name, key in found.items())]
    tables = [
        table("smallest share of rounds of any client", values["windows"], windows),
        table(_SMALLEST, values["smallest_periods"], periods),
    ]
    notes = [
        f"the intervals assume independent rounds; P_delta lies between the last two columns with {percent} confidence"
    ]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        lengths = np.arange(1, len(trace) + 1)
        alpha = (1 - confidence) / (2 * trace.shape[1] * (len(trace) // lengths))
        axes.plot(lengths, profile, color=BLUE, linewidth=1.2, label="in the trace")
        band = chernoff_lower(profile, lengths, alpha), chernoff_upper(profile, lengths, alpha)
        axes.fill_between(lengths, *band, color=BLUE, alpha=0.15, linewidth=0, label=f"{percent} for each P")
        _finish(axes, scenario, deltas, float(band[1].max()), "best")

    return Report(values, draw, _SIZE, tables, notes)


def _shown(horizon: int, window: int) -> list[int]:
    """1, 2, 5, 10, 20, ... up to half the rounds, and the window itself."""
    grid = {int(f * 10**e) for e in range(7) for f in (1, 2, 5)}
    return sorted({p for p in grid if 2 * p <= horizon} | {window})


def _ends(estimate: dict[str, float]) -> str:
    return interval([estimate["lower"], estimate["upper"]])


def _finish(axes: Axes, scenario: Scenario, deltas: Sequence[float], top: float, legend: Corner) -> None:
    for delta in deltas:
        if delta < 1.2 * top:
            reference_line(axes, delta, f"{delta:g}")
    count_axis(axes, zero=False)
    axes.set_ylim(0, 1.25 * top)
    format_axes(axes, f"Assumption 1: {scenario.name}, {scenario.m} clients", "window P (rounds)", "δ(P)", legend)
