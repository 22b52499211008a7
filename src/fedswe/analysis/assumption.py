"""Is Assumption 1 satisfied, and with which window?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from fedswe.analysis.drawing import BLUE, Corner, count_axis, dress, level
from fedswe.analysis.report import Report, Sheet, interval, short
from fedswe.analysis.subject import Subject
from fedswe.errors import require
from fedswe.theory.assumption import (
    ROUNDING,
    check_delta,
    chernoff_lower,
    chernoff_upper,
    delta_max,
    delta_profile,
    pooled_trace_delta,
    trace_delta,
    trace_period,
    window_delta,
    window_means,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIZE = (6.4, 4.2)


def assumption_report(subject: Subject, deltas: Sequence[float], period: int | None, confidence: float) -> Report:
    """delta(P) for some windows P, and P_delta for some delta."""
    require(len(deltas), "--delta is empty: give at least one number, e.g. --delta 0.05,0.1")
    for delta in deltas:
        check_delta(delta)
    window = subject.window(period)
    if subject.knows == "trace":
        return _of_trace(subject, deltas, window, confidence)
    return _of_probabilities(subject, deltas, window)


def _of_probabilities(subject: Subject, deltas: Sequence[float], window: int) -> Report:
    prob, profile = subject.prob, delta_profile(subject.prob)
    here = window_delta(prob, window)  # refuses a window in which a client has probability 0 throughout
    reached = [int(np.argmax(profile >= d - ROUNDING)) + 1 if (profile >= d - ROUNDING).any() else None for d in deltas]
    shown = _shown(subject.horizon, window)
    rarest = [int(window_means(prob, p).min(axis=0).argmin()) for p in shown]
    windows = Sheet(
        "the rarest client's mean probability in its worst window",
        ["window P", "windows", "delta(P)", "client"],
        [
            [str(p), str(subject.horizon // p), short(profile[p - 1]), str(client)]
            for p, client in zip(shown, rarest, strict=True)
        ],
    )
    values = {
        "period": window,
        "delta": here,
        "delta_max": delta_max(prob),
        "smallest_periods": [{"delta": d, "period": p} for d, p in zip(deltas, reached, strict=True)],
        "profile": profile,
    }
    notes = [
        f"Assumption 1 holds with P = {window}, delta = {short(here)}; delta_max = {short(delta_max(prob))}",
    ]
    if subject.knows == "chains":
        notes = [
            f"the shares of time alone would give P = {window}, delta = {short(here)}; see fedswe theory staleness"
        ]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        axes.plot(np.arange(1, len(profile) + 1), profile, color=BLUE, linewidth=1.2)
        axes.plot([window], [here], "o", color=BLUE, label=f"P = {window}: δ = {short(here)}")
        _finish(axes, subject, deltas, float(profile.max()), "lower right")

    return Report(values, draw, _SIZE, [windows, _smallest(deltas, [[_period(p)] for p in reached])], notes)


def _of_trace(subject: Subject, deltas: Sequence[float], window: int, confidence: float) -> Report:
    trace = subject.trace
    shown = _shown(subject.horizon, window)
    alone = [trace_delta(trace, p, confidence) for p in shown]
    pooled = [pooled_trace_delta(trace, p, confidence) for p in shown]
    sure = f"{100 * confidence:g} %"
    windows = Sheet(
        "the rarest client's share of rounds",
        [
            "window P",
            "windows",
            "in its worst window",
            f"delta(P), {sure}",
            "over all windows",
            f"if they repeat, {sure}",
        ],
        [
            [
                str(p),
                str(subject.horizon // p),
                short(a.delta),
                interval(a.lower, a.upper),
                short(b.delta),
                interval(b.lower, b.upper),
            ]
            for p, a, b in zip(shown, alone, pooled, strict=True)
        ],
    )
    found = [trace_period(trace, d, confidence) for d in deltas]
    rows = [[_period(f.period), _period(f.possible), _period(f.certified)] for f in found]
    here = trace_delta(trace, window, confidence)
    values = {
        "period": window,
        "delta": asdict(here),
        "delta_if_windows_repeat": asdict(pooled_trace_delta(trace, window, confidence)),
        "smallest_periods": [asdict(f) for f in found],
        "profile": delta_profile(trace),
    }
    notes = [
        f"the intervals assume independent rounds; P_delta lies between the last two columns with {sure} confidence"
    ]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        profile, periods = delta_profile(trace), np.arange(1, len(trace) + 1)
        alpha = (1 - confidence) / (2 * trace.shape[1] * (len(trace) // periods))
        axes.plot(periods, profile, color=BLUE, linewidth=1.2, label="in the trace")
        band = chernoff_lower(profile, periods, alpha), chernoff_upper(profile, periods, alpha)
        axes.fill_between(periods, *band, color=BLUE, alpha=0.15, linewidth=0, label=f"{sure} for each P")
        _finish(axes, subject, deltas, float(band[1].max()), "upper right")

    sheets = [windows, _smallest(deltas, rows, "in the trace", "at least", "at most")]
    return Report(values, draw, _SIZE, sheets, notes)


def _shown(horizon: int, window: int) -> list[int]:
    """1, 2, 5, 10, 20, ... up to half the rounds, and the window itself."""
    grid = {int(f * 10**e) for e in range(7) for f in (1, 2, 5)}
    return sorted({p for p in grid if 2 * p <= horizon} | {window})


def _smallest(deltas: Sequence[float], rows: list[list[str]], *columns: str) -> Sheet:
    return Sheet(
        "P_delta: the shortest window with that delta",
        ["delta", *(columns or ("P_delta",))],
        [[f"{d:g}", *row] for d, row in zip(deltas, rows, strict=True)],
    )


def _period(period: int | None) -> str:
    return "none" if period is None else str(period)


def _finish(axes: Axes, subject: Subject, deltas: Sequence[float], top: float, legend: Corner) -> None:
    for delta in deltas:
        if delta < 1.2 * top:
            level(axes, delta, f"{delta:g}")
    count_axis(axes, zero=False)
    axes.set_ylim(0, 1.25 * top)
    dress(axes, f"Assumption 1: {subject.name}, {subject.m} clients", "window P (rounds)", "δ(P)", legend)
