"""How stale do clients get, and how large are their echoes?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fedswe.analysis.report import Report, TextTable, short, table
from fedswe.analysis.scenario import Scenario
from fedswe.availability.schedule import Floats
from fedswe.errors import FedsweError, require
from fedswe.plotting import BLUE, GREEN, GREY, ORANGE, RED, format_axes, reference_line
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

_SIZE = (6.9, 2.7)
_COPIES = 100  # of simulated chains
_RAREST = 5  # clients listed one by one
_MOMENTS = ("first", "second")
_FACTS = {  # of a trace, by their key in the values
    "mean_available": "clients available on average",
    "empty_rounds": "rounds without any available client",
    "jain_index": "Jain's index of the participations (1: all equal)",
    "mean_staleness": "mean staleness over rounds and clients",
    "tau_avg": "mean over rounds of the stalest client",
    "tau_max": "largest staleness",
}


def staleness_report(scenario: Scenario, levels: Sequence[float], period: int | None) -> Report:
    """Moments of t - tau_i(t) with their bounds, and quantiles of the echo."""
    require(len(levels), "--quantiles is empty: give at least one number, e.g. --quantiles 0.5,0.99")
    require(all(0 < q <= 1 for q in levels), "--quantiles must be numbers in (0, 1], e.g. 0.5,0.9,0.99")
    require(
        period is None or scenario.known == "probabilities",
        "--period is the window of the bounds, which need the probabilities of independent rounds: leave it out",
    )
    if scenario.known == "trace":
        return _of_trace(scenario, levels)
    if scenario.known == "chains":
        return _of_chains(scenario, levels)
    return _of_probabilities(scenario, levels, scenario.window(period))


# known probabilities, independent rounds -------------------------------------------------------------------
def _of_probabilities(scenario: Scenario, levels: Sequence[float], window: int) -> Report:
    prob = scenario.prob
    moments = staleness_moments(prob)
    first, second = moments.first[:-1], moments.second[:-1]  # the rounds analysed, not the one after
    paper, safe, note = _bounds(prob, window)
    quantiles = horizon_echo_quantiles(prob, levels)
    values: dict[str, Any] = {
        "period": window,
        "first_moment": _summary(first),
        "second_moment": _summary(second),
        "paper_bounds": paper,
        "safe_bounds": safe,
        "echo_quantiles": _by_level(levels, quantiles),
        "per_client": {
            "mean_probability": prob.mean(axis=0),
            "mean_staleness": first.mean(axis=0),
            "largest_staleness": first.max(axis=0),
        },
    }
    bounds = [{"paper": paper and paper[n], "safe": safe and safe[n]} for n in range(2)]
    tables = [
        table(
            "staleness t - tau_i(t), exact",
            [{"moment": name, **values[f"{name}_moment"], **b} for name, b in zip(_MOMENTS, bounds, strict=True)],
            ["moment", "mean", "largest", "client", "round", ("paper's bound", "paper"), ("for every t", "safe")],
        ),
        _echo_table(values),
        _rarest_table(
            values["per_client"],
            {"mean p": "mean_probability", "mean staleness": "mean_staleness", "largest E": "largest_staleness"},
        ),
    ]
    notes = [note]
    if paper is not None and (first.max() > paper[0] or second.max() > paper[1]):
        notes.append(
            "a printed bound is exceeded: it holds for rounds that P divides only, see docs/errata.md, entry 6"
        )

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        _draw_echoes(left, echo_counts(prob).sum(axis=1))
        _finish_echoes(left, quantiles, levels)
        order = np.argsort(first.mean(axis=0))
        chosen = {"rarest": order[-1], "median": order[len(order) // 2], "most frequent": order[0]}
        for (name, i), color in zip(chosen.items(), (RED, ORANGE, GREEN), strict=True):
            right.plot(first[:, i], color=color, linewidth=1.2, label=f"{name} (client {i})")
        top, above = 1.5 * float(first.max()), []
        for bound, name in ((paper, "paper"), (safe, "every t")):
            if bound is not None and bound[0] < top:
                reference_line(right, bound[0], name)
            elif bound is not None:  # in the axes they would squeeze the curves
                above.append(f"{short(bound[0])} ({name})")
        right.set_ylim(0, top)
        title = "\n".join(["expected staleness", *([f"bounds: {', '.join(above)}"] if above else [])])
        format_axes(right, title, "round t", r"$E[t - \tau_i(t)]$", "upper right")

    return Report(values, draw, _SIZE, tables, notes)


def _bounds(prob: Floats, window: int) -> tuple[tuple[float, float] | None, tuple[float, float] | None, str]:
    """The bounds on both moments as printed and for every t, and a note; without bounds the note says why."""
    try:
        delta = window_delta(prob, window)
    except FedsweError as error:
        return None, None, f"no bounds: {error}"
    return (
        (paper_first_moment_bound(window, delta), paper_second_moment_bound(window, delta)),
        (safe_first_moment_bound(window, delta), safe_second_moment_bound(window, delta)),
        f"bounds with P = {window}, delta = {short(delta)}",
    )


def _summary(moment: Floats) -> dict[str, float]:
    """Mean and maximum over rounds and clients; the first round that reaches the maximum, to six digits."""
    t, client = np.argwhere(moment >= moment.max() * (1.0 - 1e-6))[0]
    return {"mean": float(moment.mean()), "largest": float(moment.max()), "client": int(client), "round": int(t)}


# one trace -------------------------------------------------------------------------------------------------
def _of_trace(scenario: Scenario, levels: Sequence[float]) -> Report:
    trace = scenario.trace
    facts = trace_statistics(trace)
    staleness = realised_staleness(trace)
    echoes = staleness[trace]
    quantiles = _quantiles(echoes, levels)
    values: dict[str, Any] = {
        **{key: getattr(facts, key) for key in _FACTS},
        "echo_quantiles": _by_level(levels, quantiles),
        "per_client": {
            "participations": facts.participations,
            "mean_echo": facts.mean_gap,
            "longest_gap": facts.longest_gap,
        },
    }
    tables = [
        table(
            "the trace",
            [{"what": name, "value": values[key]} for key, name in _FACTS.items()],
            ["what", "value"],
        ),
        _echo_table(values),
        _rarest_table(
            values["per_client"],
            {"rounds available": "participations", "mean echo": "mean_echo", "longest absence": "longest_gap"},
        ),
    ]

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        _draw_echoes(left, np.bincount(echoes))
        _finish_echoes(left, quantiles, levels)
        right.plot(staleness.max(axis=1), color=RED, linewidth=1.0, label="stalest client")
        right.plot(staleness.mean(axis=1), color=BLUE, linewidth=1.2, label="mean over clients")
        format_axes(right, "staleness in the trace", "round t", r"$t - \tau_i(t)$")

    return Report(values, draw, _SIZE, tables)


# chains: simulated -----------------------------------------------------------------------------------------
def _of_chains(scenario: Scenario, levels: Sequence[float]) -> Report:
    require(scenario.prob.any(), "all probabilities are 0: no client ever reports")
    available = scenario.copies(scenario.horizon, _COPIES)
    rounds, copies, m = available.shape
    staleness = realised_staleness(available.reshape(rounds, copies * m)).reshape(available.shape)
    quantiles = _quantiles(staleness[available], levels)
    independent = staleness_moments(scenario.prob)

    def moment(power: int, coins: Floats) -> dict[str, float]:
        means = (staleness.astype(np.float64) ** power).mean(axis=(0, 2))
        return {
            "mean": float(means.mean()),
            "standard_error": float(means.std(ddof=1) / np.sqrt(copies)),
            "independent_coins": float(coins[:-1].mean()),
        }

    values: dict[str, Any] = {
        "copies": copies,
        "first_moment": moment(1, independent.first),
        "second_moment": moment(2, independent.second),
        "echo_quantiles": _by_level(levels, quantiles),
    }
    tables = [
        table(
            f"staleness t - tau_i(t), {copies} simulated copies",
            [{"moment": name, **values[f"{name}_moment"]} for name in _MOMENTS],
            [
                "moment",
                "mean",
                ("standard error", "standard_error"),
                ("independent coins with the same p_i", "independent_coins"),
            ],
        ),
        _echo_table(values),
    ]
    notes = ["the paper's bounds assume independent rounds and are not evaluated"]

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        _draw_echoes(left, np.bincount(staleness[available]))
        _draw_echoes(left, echo_counts(scenario.prob).sum(axis=1), GREY, "independent coins")
        _finish_echoes(left, quantiles, levels)
        right.plot(staleness.mean(axis=(1, 2)), color=BLUE, linewidth=1.2, label="chains, mean over clients")
        right.plot(independent.first.mean(axis=1), color=GREY, linewidth=1.0, label="independent coins")
        format_axes(right, "mean staleness", "round t", r"$t - \tau_i(t)$")

    return Report(values, draw, _SIZE, tables, notes)


# all three -------------------------------------------------------------------------------------------------
def _quantiles(echoes: IntArray, levels: Sequence[float]) -> IntArray:
    return np.quantile(echoes, levels, method="inverted_cdf").astype(np.int64)


def _by_level(levels: Sequence[float], quantiles: IntArray) -> list[dict[str, float]]:
    return [{"level": q, "echo": int(e)} for q, e in zip(levels, quantiles, strict=True)]


def _echo_table(values: dict[str, Any]) -> TextTable:
    return table(
        "echo t - tau_i of the clients that report",
        values["echo_quantiles"],
        [("share of reports", "level", lambda q: f"{100 * q:g} %"), ("at most", "echo")],
    )


def _rarest_table(per_client: dict[str, Any], columns: dict[str, str]) -> TextTable:
    """The clients with the smallest values in the first column."""
    rarest = np.argsort(per_client[next(iter(columns.values()))], kind="stable")[:_RAREST]
    rows = [{"client": int(i), **{key: of_all[i] for key, of_all in per_client.items()}} for i in rarest]
    return table("the rarest clients", rows, ["client", *columns.items()])


def _draw_echoes(axes: Axes, counts: Floats | IntArray, color: str = BLUE, label: str | None = None) -> None:
    """The share of reports with a larger echo; `counts` holds the number of reports per echo."""
    axes.plot(1.0 - np.cumsum(counts) / counts.sum(), color=color, drawstyle="steps-post", label=label)


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
                f"{100 * q:g} % up to {echo}", (echo, 1 - q), xytext=(6, 3), textcoords="offset points", fontsize=7
            )
    format_axes(axes, "echo of the reports", "echo r", "share of reports with a larger echo")
