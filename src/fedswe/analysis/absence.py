"""How often and how long are clients away? Assumption 1 with its window, and staleness with the echoes it leads to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fedswe.analysis.report import Report, Rows, general, interval, or_else, short
from fedswe.analysis.scenario import Scenario
from fedswe.availability.schedule import Floats
from fedswe.errors import FedsweError, require
from fedswe.plotting import BLUE, GREEN, GREY, ORANGE, RED, count_axis, format_axes, reference_line
from fedswe.theory import assumption, staleness
from fedswe.theory.assumption import IntArray, chernoff_lower, chernoff_upper, window_delta

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COPIES = 100  # of simulated chains
_RAREST = 5  # clients listed one by one
_GRID = [f * 10**e for e in range(7) for f in (1, 2, 5)]  # windows that are listed
_FACTS = {  # of a trace, by their key in the values
    "mean_available": "clients available on average",
    "empty_rounds": "rounds without any available client",
    "jain_index": "Jain's index of the participations (1: all equal)",
    "mean_staleness": "mean staleness over rounds and clients",
    "tau_avg": "mean over rounds of the stalest client",
    "tau_max": "largest staleness",
}


# Assumption 1 ------------------------------------------------------------------------------------------------
def assumption_report(scenario: Scenario, deltas: Sequence[float], period: int | None, confidence: float) -> Report:
    """delta(P) for some windows P, and P_delta for some delta."""
    require(len(deltas), "--delta is empty: give at least one number, e.g. --delta 0.05,0.1")
    for delta in deltas:
        assumption.check_delta(delta)
    window, profile = scenario.window(period), assumption.delta_profile(scenario.table)
    traced, percent = scenario.known == "trace", f"{100 * confidence:g} %"
    of = _estimated if traced else _known
    values, title, windows, periods, note = of(scenario, deltas, window, profile, confidence)
    tables = {title: windows, "P_delta: the shortest window with that delta": periods}

    def draw(figure: Figure) -> None:
        axes, lengths, top = figure.subplots(), np.arange(1, len(profile) + 1), float(profile.max())
        axes.plot(lengths, profile, color=BLUE, linewidth=1.2, label="in the trace" if traced else None)
        if traced:
            alpha = (1 - confidence) / (2 * scenario.m * (len(profile) // lengths))
            low, high = chernoff_lower(profile, lengths, alpha), chernoff_upper(profile, lengths, alpha)
            axes.fill_between(lengths, low, high, color=BLUE, alpha=0.15, linewidth=0, label=f"{percent} for each P")
            top = float(high.max())
        else:
            label = f"P = {window}: δ = {short(values['delta'])}"
            axes.plot([window], [values["delta"]], "o", color=BLUE, label=label)
        for delta in deltas:
            if delta < 1.2 * top:
                reference_line(axes, delta, f"{delta:g}")
        count_axis(axes, zero=False)
        axes.set_ylim(0, 1.25 * top)
        format_axes(axes, f"Assumption 1: {scenario.name}, {scenario.m} clients", "window P (rounds)", "δ(P)")

    return Report({"period": window, **values, "profile": profile}, draw, (4.6, 3.0), tables, [note])


_Judged = tuple[dict[str, Any], str, Rows, Rows, str]  # values, the title and rows of both tables, and a note


def _known(scenario: Scenario, deltas: Sequence[float], window: int, profile: Floats, _: float) -> _Judged:
    prob = scenario.prob
    here, most = window_delta(prob, window), assumption.delta_max(prob)  # refuses a window without some client

    def at(p: int) -> dict[str, Any]:
        rarest = int(assumption.window_means(prob, p).min(axis=0).argmin())
        return {"period": p, "windows": scenario.horizon // p, "delta": profile[p - 1], "client": rarest}

    windows = [at(p) for p in _shown(scenario.horizon, window)]
    periods: list[dict[str, Any]] = [{"delta": d, "period": assumption.smallest_period(profile, d)} for d in deltas]
    note = f"Assumption 1 holds with P = {window}, delta = {short(here)}; delta_max = {short(most)}"
    if scenario.known == "chains":
        note = (
            f"independent rounds with the same p_i would have P = {window}, delta = {short(here)}; "
            "see fedswe theory staleness"
        )
    return (
        {"delta": here, "delta_max": most, "windows": windows, "smallest_periods": periods},
        "smallest mean probability of any client in any window",
        [{"window P": w["period"], "windows": w["windows"], "delta(P)": w["delta"], "client": w["client"]}
         for w in windows],
        [{"delta": general(p["delta"]), "P_delta": or_else(p["period"], "none")} for p in periods],
        note,
    )  # fmt: skip


def _estimated(scenario: Scenario, deltas: Sequence[float], window: int, _: Floats, confidence: float) -> _Judged:
    trace, percent = scenario.trace, f"{100 * confidence:g} %"

    def at(p: int) -> dict[str, Any]:
        found = assumption.trace_delta(trace, p, confidence), assumption.pooled_trace_delta(trace, p, confidence)
        return {"delta": asdict(found[0]), "delta_if_windows_repeat": asdict(found[1])}

    def shown(row: dict[str, Any]) -> dict[str, Any]:
        each, pooled = row["delta"], row["delta_if_windows_repeat"]
        return {
            "window P": row["period"],
            "windows": row["windows"],
            "in its worst window": each["delta"],
            f"delta(P), {percent}": interval(each["lower"], each["upper"]),
            "over all windows": pooled["delta"],
            f"if they repeat, {percent}": interval(pooled["lower"], pooled["upper"]),
        }

    windows = [{"period": p, "windows": scenario.horizon // p, **at(p)} for p in _shown(scenario.horizon, window)]
    periods = [asdict(assumption.trace_period(trace, d, confidence)) for d in deltas]
    names = {"in the trace": "period", "at least": "possible", "at most": "certified"}
    return (
        {**at(window), "windows": windows, "smallest_periods": periods},
        "smallest share of rounds of any client",
        [shown(row) for row in windows],
        [{"delta": general(p["delta"]), **{n: or_else(p[key], "none") for n, key in names.items()}} for p in periods],
        f"the intervals assume independent rounds; P_delta lies between the last two columns with {percent} confidence",
    )


def _shown(horizon: int, window: int) -> list[int]:
    """1, 2, 5, 10, 20, ... up to half the rounds, and the window itself."""
    return sorted({p for p in _GRID if 2 * p <= horizon} | {window})


# staleness ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class _Staleness:
    """What is known of t - tau_i(t), by probabilities, from a trace, or from simulated chains."""

    values: dict[str, Any]
    title: str
    rows: Rows
    echoes: Floats | IntArray  # [largest + 1], the reports with each echo
    over_time: str  # the title of the curves
    curves: dict[str, tuple[Floats | IntArray, str]]  # staleness by round, and its colour
    notes: list[str] = field(default_factory=list)
    per_client: dict[str, tuple[str, Any]] = field(default_factory=dict)  # by key: the title, and [m] values
    bounds: dict[str, float] = field(default_factory=dict)  # on the curves
    coins: Floats | None = None  # echoes of independent rounds, beside which chains are drawn


def staleness_report(scenario: Scenario, levels: Sequence[float], period: int | None) -> Report:
    """Moments of t - tau_i(t) with their bounds, and quantiles of the echo."""
    require(len(levels), "--quantiles is empty: give at least one number, e.g. --quantiles 0.5,0.99")
    require(all(0 < q <= 1 for q in levels), "--quantiles must be numbers in (0, 1], e.g. 0.5,0.9,0.99")
    require(
        period is None or scenario.known == "probabilities",
        "--period is the window of the bounds, which need the probabilities of independent rounds: leave it out",
    )
    if scenario.known == "trace":
        found = _of_trace(scenario)
    elif scenario.known == "chains":
        found = _of_chains(scenario)
    else:
        found = _of_probabilities(scenario, scenario.window(period))
    quantiles = staleness.echo_quantiles(found.echoes, levels).tolist()
    values = {
        **found.values,
        "echo_quantiles": [{"level": q, "echo": e} for q, e in zip(levels, quantiles, strict=True)],
    }
    shown = [{"share of reports": f"{100 * q:g} %", "at most": e} for q, e in zip(levels, quantiles, strict=True)]
    tables = {found.title: found.rows, "echo t - tau_i of the clients that report": shown}
    if found.per_client:
        values["per_client"] = {key: of_all for key, (_, of_all) in found.per_client.items()}
        rarest = np.argsort(next(iter(found.per_client.values()))[1], kind="stable")[:_RAREST]
        tables["the rarest clients"] = [
            {"client": int(i), **{title: of_all[i] for title, of_all in found.per_client.values()}} for i in rarest
        ]

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        _draw_echoes(left, found, dict(zip(levels, quantiles, strict=True)))
        for label, (curve, color) in found.curves.items():
            right.plot(curve, color=color, linewidth=1.2, label=label)
        top = 1.5 * max(float(curve.max()) for curve, _ in found.curves.values())
        for name, bound in found.bounds.items():
            if bound < top:  # others would squeeze the curves
                reference_line(right, bound, name)
        right.set_ylim(0, top)
        format_axes(right, found.over_time, "round t", r"$t - \tau_i(t)$", "upper right")

    return Report(values, draw, (6.9, 2.7), tables, found.notes)


def _of_probabilities(scenario: Scenario, window: int) -> _Staleness:
    prob = scenario.prob
    moments = staleness.staleness_moments(prob)
    first, second = moments.first[:-1], moments.second[:-1]  # the rounds analysed, not the one after
    paper, safe, notes = _bounds(prob, window)
    summaries = {"first": _summary(first), "second": _summary(second)}
    rows = [
        {"moment": name, **summary, "paper's bound": paper and paper[n], "for every t": safe and safe[n]}
        for n, (name, summary) in enumerate(summaries.items())
    ]
    if paper is not None and (first.max() > paper[0] or second.max() > paper[1]):
        notes.append(
            "a printed bound is exceeded: it holds for rounds that P divides only, see docs/errata.md, entry 6"
        )
    mean = first.mean(axis=0)
    order = np.argsort(mean)
    chosen = {"rarest": order[-1], "median": order[len(order) // 2], "most frequent": order[0]}
    colors = (RED, ORANGE, GREEN)
    return _Staleness(
        {
            "period": window,
            **{f"{name}_moment": summary for name, summary in summaries.items()},
            "paper_bounds": paper,
            "safe_bounds": safe,
        },
        "staleness t - tau_i(t), exact",
        rows,
        staleness.echo_counts(prob).sum(axis=1),
        "expected staleness",
        {f"{n} (client {i})": (first[:, i], c) for (n, i), c in zip(chosen.items(), colors, strict=True)},
        notes,
        {
            "mean_probability": ("mean p", prob.mean(axis=0)),
            "mean_staleness": ("mean staleness", mean),
            "largest_staleness": ("largest E", first.max(axis=0)),
        },
        {} if paper is None or safe is None else {"paper": paper[0], "every t": safe[0]},
    )


def _bounds(prob: Floats, window: int) -> tuple[tuple[float, float] | None, tuple[float, float] | None, list[str]]:
    """The bounds on both moments as printed and for every t, and a note; without bounds the note says why."""
    try:
        delta = window_delta(prob, window)
    except FedsweError as error:
        return None, None, [f"no bounds: {error}"]
    paper = staleness.paper_first_moment_bound(window, delta), staleness.paper_second_moment_bound(window, delta)
    safe = staleness.safe_first_moment_bound(window, delta), staleness.safe_second_moment_bound(window, delta)
    return paper, safe, [f"bounds with P = {window}, delta = {short(delta)}"]


def _summary(moment: Floats) -> dict[str, float]:
    """Mean and maximum over rounds and clients; the first round that reaches the maximum, to six digits."""
    t, client = np.argwhere(moment >= moment.max() * (1.0 - 1e-6))[0]
    return {"mean": float(moment.mean()), "largest": float(moment.max()), "client": int(client), "round": int(t)}


def _of_trace(scenario: Scenario) -> _Staleness:
    trace = scenario.trace
    facts, stale = assumption.trace_statistics(trace), assumption.realised_staleness(trace)
    values = {key: getattr(facts, key) for key in _FACTS}
    return _Staleness(
        values,
        "the trace",
        [{"what": name, "value": values[key]} for key, name in _FACTS.items()],
        np.bincount(stale[trace]),
        "staleness in the trace",
        {"stalest client": (stale.max(axis=1), RED), "mean over clients": (stale.mean(axis=1), BLUE)},
        per_client={
            "participations": ("rounds available", facts.participations),
            "mean_echo": ("mean echo", facts.mean_gap),
            "longest_gap": ("longest absence", facts.longest_gap),
        },
    )


def _of_chains(scenario: Scenario) -> _Staleness:
    require(scenario.prob.any(), "all probabilities are 0: no client ever reports")
    available = scenario.copies(scenario.horizon, _COPIES)
    rounds, copies, m = available.shape
    stale = assumption.realised_staleness(available.reshape(rounds, copies * m)).reshape(available.shape)
    independent = staleness.staleness_moments(scenario.prob)

    def moment(power: int, coins: Floats) -> dict[str, float]:
        means = (stale.astype(np.float64) ** power).mean(axis=(0, 2))
        error = float(means.std(ddof=1) / np.sqrt(copies))
        return {"mean": float(means.mean()), "standard_error": error, "independent_coins": float(coins[:-1].mean())}

    moments = {"first": moment(1, independent.first), "second": moment(2, independent.second)}
    titles = ("mean", "standard error", "independent coins with the same p_i")
    return _Staleness(
        {"copies": copies, **{f"{name}_moment": of for name, of in moments.items()}},
        f"staleness t - tau_i(t), {copies} simulated copies",
        [{"moment": name, **dict(zip(titles, of.values(), strict=True))} for name, of in moments.items()],
        np.bincount(stale[available]),
        "mean staleness",
        {
            "chains, mean over clients": (stale.mean(axis=(1, 2)), BLUE),
            "independent coins": (independent.first.mean(axis=1), GREY),
        },
        ["the paper's bounds assume independent rounds and are not evaluated"],
        coins=staleness.echo_counts(scenario.prob).sum(axis=1),
    )


def _draw_echoes(axes: Axes, found: _Staleness, quantiles: dict[float, int]) -> None:
    """The share of reports with a larger echo."""
    drawn = [(found.echoes, BLUE, None)] + ([] if found.coins is None else [(found.coins, GREY, "independent coins")])
    curves = [1.0 - np.cumsum(counts) / counts.sum() for counts, _, _ in drawn]
    for curve, (_, color, label) in zip(curves, drawn, strict=True):
        axes.plot(curve, color=color, drawstyle="steps-post", label=label)
    lowest = max(min(float(c[c > 1e-9].min()) for c in curves), 1e-6)
    axes.set_yscale("log")
    axes.set_ylim(lowest / 1.5, 1.5)
    axes.set_xlim(0, 1.02 * max(int(np.flatnonzero(c >= lowest)[-1]) + 1 for c in curves))
    for q, echo in quantiles.items():
        if q < 1:
            axes.plot([echo], [1 - q], "o", color=BLUE, markersize=4)
            axes.annotate(
                f"{100 * q:g} % up to {echo}", (echo, 1 - q), xytext=(6, 3), textcoords="offset points", fontsize=7
            )
    format_axes(axes, "echo of the reports", "echo r", "share of reports with a larger echo")
