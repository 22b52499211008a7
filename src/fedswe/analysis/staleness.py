"""How stale do clients get, and how large are the echoes of those who return?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedswe.analysis.drawing import BLUE, GREEN, GREY, ORANGE, RED, dress, level
from fedswe.analysis.report import Report, Sheet, short
from fedswe.analysis.subject import Subject
from fedswe.availability.schedule import Bools, Floats
from fedswe.errors import FedsweError, require
from fedswe.theory.assumption import IntArray, realised_staleness, trace_statistics, window_delta
from fedswe.theory.staleness import (
    echo_counts,
    horizon_echo_quantiles,
    paper_first_moment_bound,
    paper_second_moment_bound,
    safe_first_moment_bound,
    safe_second_moment_bound,
    staleness_moments,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIZE = (10.4, 4.0)
_COPIES = 100  # of simulated chains
_RAREST = 5  # clients listed one by one


@dataclass(frozen=True)
class _Bounds:
    """The moment bounds at (P, delta), or why there are none."""

    paper: tuple[float, float] | None
    safe: tuple[float, float] | None
    reason: str


def staleness_report(subject: Subject, levels: Sequence[float], period: int | None) -> Report:
    """Moments of t - tau_i(t) with their bounds, and quantiles of the echo factor."""
    require(len(levels), "--quantiles is empty: give at least one number, e.g. --quantiles 0.5,0.99")
    require(all(0 < q <= 1 for q in levels), "--quantiles must be numbers in (0, 1], e.g. 0.5,0.9,0.99")
    require(
        period is None or subject.knows == "probabilities",
        "--period is the window of the bounds, which need the probabilities of independent rounds: leave it out",
    )
    if subject.knows == "trace":
        return _of_trace(subject, levels)
    if subject.knows == "chains":
        return _of_chains(subject, levels)
    return _of_probabilities(subject, levels, subject.window(period))


# known probabilities, independent rounds -------------------------------------------------------------------
def _of_probabilities(subject: Subject, levels: Sequence[float], window: int) -> Report:
    prob = subject.prob
    moments = staleness_moments(prob)
    first, second = moments.first[:-1], moments.second[:-1]  # the rounds looked at, not the one after
    bounds = _bounds(prob, window)
    counts = echo_counts(prob)
    quantiles = horizon_echo_quantiles(prob, levels)
    rare = np.argsort(prob.mean(axis=0), kind="stable")[:_RAREST]
    sheet = Sheet(
        "staleness t - tau_i(t), exact",
        ["moment", "mean", "largest", "client", "round", "paper's bound", "for every t"],
        [
            _moment_row("first", first, bounds.paper and bounds.paper[0], bounds.safe and bounds.safe[0]),
            _moment_row("second", second, bounds.paper and bounds.paper[1], bounds.safe and bounds.safe[1]),
        ],
    )
    values: dict[str, Any] = {
        "period": window,
        "first_moment": _summary(first),
        "second_moment": _summary(second),
        "paper_bounds": bounds.paper,
        "safe_bounds": bounds.safe,
        "echo_quantiles": [{"level": q, "echo": int(e)} for q, e in zip(levels, quantiles, strict=True)],
        "per_client": {"mean_probability": prob.mean(axis=0), "mean_staleness": first.mean(axis=0)},
    }
    rarest = Sheet(
        "the rarest clients",
        ["client", "mean p", "mean staleness", "largest E"],
        [[str(i), short(prob[:, i].mean()), short(first[:, i].mean()), short(first[:, i].max())] for i in rare],
    )
    notes = [bounds.reason] * bool(bounds.reason)
    if bounds.paper is not None and (first.max() > bounds.paper[0] or second.max() > bounds.paper[1]):
        notes.append(
            "a printed bound is exceeded: it holds for rounds that P divides only, see docs/errata.md, entry 6"
        )

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        total = counts.sum(axis=1)
        left.plot(np.arange(len(total)), 1.0 - np.cumsum(total) / total.sum(), color=BLUE, drawstyle="steps-post")
        _finish_echoes(left, quantiles, levels)
        order = np.argsort(first.mean(axis=0))
        chosen = {"rarest": order[-1], "median": order[len(order) // 2], "most frequent": order[0]}
        for (name, i), color in zip(chosen.items(), (RED, ORANGE, GREEN), strict=True):
            right.plot(first[:, i], color=color, linewidth=1.2, label=f"{name} (client {i})")
        if bounds.paper is not None and bounds.safe is not None:
            level(right, bounds.paper[0], "paper")
            level(right, bounds.safe[0], "every t")
            right.set_ylim(0, 1.35 * max(bounds.safe[0], first.max()))
        dress(right, "expected staleness", "round t", r"$E[t - \tau_i(t)]$", "upper right")

    return Report(values, draw, _SIZE, [sheet, _echo_sheet(levels, quantiles), rarest], notes)


def _bounds(prob: Floats, window: int) -> _Bounds:
    try:
        delta = window_delta(prob, window)
    except FedsweError as error:
        return _Bounds(None, None, f"no bounds: {error}")
    return _Bounds(
        (paper_first_moment_bound(window, delta), paper_second_moment_bound(window, delta)),
        (safe_first_moment_bound(window, delta), safe_second_moment_bound(window, delta)),
        f"bounds with P = {window}, delta = {short(delta)}",
    )


def _where_largest(table: Floats) -> tuple[int, int]:
    """The first round at which the maximum is reached, to six digits, and the client."""
    t, client = np.argwhere(table >= table.max() * (1.0 - 1e-6))[0]
    return int(t), int(client)


def _moment_row(name: str, table: Floats, paper: float | None, safe: float | None) -> list[str]:
    t, client = _where_largest(table)
    return [name, short(table.mean()), short(table.max()), str(client), str(t), short(paper), short(safe)]


def _summary(table: Floats) -> dict[str, float]:
    t, client = _where_largest(table)
    return {"mean": float(table.mean()), "largest": float(table.max()), "client": client, "round": t}


# one trace -------------------------------------------------------------------------------------------------
def _of_trace(subject: Subject, levels: Sequence[float]) -> Report:
    trace = subject.trace
    facts = trace_statistics(trace)
    staleness = realised_staleness(trace)
    echoes = staleness[trace]
    quantiles = _quantiles(echoes, levels)
    sheet = Sheet(
        "the trace",
        ["what", "value"],
        [
            ["clients available on average", short(facts.mean_available)],
            ["rounds without anybody", str(facts.empty_rounds)],
            ["Jain's index of the participations (1: all alike)", short(facts.jain_index)],
            ["mean staleness over rounds and clients", short(facts.mean_staleness)],
            ["mean over rounds of the stalest client", short(facts.tau_avg)],
            ["largest staleness", str(facts.tau_max)],
        ],
    )
    rare = np.argsort(facts.participations, kind="stable")[:_RAREST]
    rarest = Sheet(
        "the rarest clients",
        ["client", "rounds there", "mean echo", "longest absence"],
        [
            [str(i), str(facts.participations[i]), short(facts.mean_gap[i]), str(facts.longest_gap[i])]
            for i in rare
        ],
    )  # fmt: skip
    values = {
        "mean_available": facts.mean_available,
        "empty_rounds": facts.empty_rounds,
        "jain_index": facts.jain_index,
        "mean_staleness": facts.mean_staleness,
        "tau_avg": facts.tau_avg,
        "tau_max": facts.tau_max,
        "echo_quantiles": [{"level": q, "echo": int(e)} for q, e in zip(levels, quantiles, strict=True)],
        "per_client": {"participations": facts.participations, "longest_gap": facts.longest_gap},
    }

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        _draw_echoes(left, echoes)
        _finish_echoes(left, quantiles, levels)
        right.plot(staleness.max(axis=1), color=RED, linewidth=1.0, label="stalest client")
        right.plot(staleness.mean(axis=1), color=BLUE, linewidth=1.2, label="mean over clients")
        dress(right, "staleness in the trace", "round t", r"$t - \tau_i(t)$")

    return Report(values, draw, _SIZE, [sheet, _echo_sheet(levels, quantiles), rarest])


# chains: simulated -----------------------------------------------------------------------------------------
def _of_chains(subject: Subject, levels: Sequence[float]) -> Report:
    require(subject.prob.any(), "all probabilities are 0: nobody ever returns an update")
    there = subject.copies(subject.horizon, _COPIES)
    rounds, copies, m = there.shape
    flat: Bools = there.reshape(rounds, copies * m)
    staleness = realised_staleness(flat).reshape(there.shape)
    means = staleness.mean(axis=(0, 2))
    squares = (staleness.astype(np.float64) ** 2).mean(axis=(0, 2))
    quantiles = _quantiles(staleness[there], levels)
    independent = staleness_moments(subject.prob)
    coins = (float(independent.first[:-1].mean()), float(independent.second[:-1].mean()))
    error = [float(v.std(ddof=1) / np.sqrt(copies)) for v in (means, squares)]
    sheet = Sheet(
        f"staleness t - tau_i(t), {copies} simulated copies",
        ["moment", "mean", "standard error", "independent coins with the same p_i"],
        [
            ["first", short(means.mean()), short(error[0]), short(coins[0])],
            ["second", short(squares.mean()), short(error[1]), short(coins[1])],
        ],
    )
    values = {
        "copies": copies,
        "first_moment": {"mean": means.mean(), "standard_error": error[0], "independent_coins": coins[0]},
        "second_moment": {"mean": squares.mean(), "standard_error": error[1], "independent_coins": coins[1]},
        "echo_quantiles": [{"level": q, "echo": int(e)} for q, e in zip(levels, quantiles, strict=True)],
    }
    notes = ["the paper's bounds assume independent rounds and are not evaluated"]

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        _draw_echoes(left, staleness[there])
        coin = echo_counts(subject.prob).sum(axis=1)
        left.plot(1.0 - np.cumsum(coin) / coin.sum(), color=GREY, linewidth=1.0, label="independent coins")
        _finish_echoes(left, quantiles, levels)
        right.plot(staleness.mean(axis=(1, 2)), color=BLUE, linewidth=1.2, label="chains, mean over clients")
        right.plot(independent.first.mean(axis=1), color=GREY, linewidth=1.0, label="independent coins")
        dress(right, "mean staleness", "round t", r"$t - \tau_i(t)$")

    return Report(values, draw, _SIZE, [sheet, _echo_sheet(levels, quantiles)], notes)


# all three -------------------------------------------------------------------------------------------------
def _quantiles(echoes: IntArray, levels: Sequence[float]) -> IntArray:
    return np.quantile(echoes, levels, method="inverted_cdf").astype(np.int64)


def _echo_sheet(levels: Sequence[float], quantiles: IntArray) -> Sheet:
    return Sheet(
        "echo factor t - tau_i of those who report",
        ["share of reports", "at most"],
        [[f"{100 * q:g} %", str(e)] for q, e in zip(levels, quantiles, strict=True)],
    )


def _draw_echoes(axes: Axes, echoes: IntArray) -> None:
    counts = np.bincount(echoes)
    axes.plot(1.0 - np.cumsum(counts) / counts.sum(), color=BLUE, drawstyle="steps-post")


def _finish_echoes(axes: Axes, quantiles: IntArray, levels: Sequence[float]) -> None:
    curves = [np.asarray(line.get_ydata(), dtype=np.float64) for line in axes.get_lines()]
    lowest = max(min(float(c[c > 1e-9].min()) for c in curves), 1e-6)
    axes.set_yscale("log")
    axes.set_ylim(lowest / 1.5, 1.5)
    axes.set_xlim(0, 1.02 * max(int(np.flatnonzero(c >= lowest)[-1]) + 1 for c in curves))
    for q, echo in zip(levels, quantiles, strict=True):
        if q < 1:
            axes.plot([echo], [1 - q], "o", color=BLUE, markersize=4)
            axes.annotate(
                f"{100 * q:g} % up to {echo}", (echo, 1 - q), xytext=(6, 3), textcoords="offset points", fontsize=8
            )
    dress(axes, "echo factor of the reports", "echo factor r", "share of reports with a larger echo")
