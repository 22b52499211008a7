"""How often and how long are clients away? Assumption 1 with its window, and staleness with the echoes it leads to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from fedswe.analysis.report import Panel, Report, figure_of, frame, short
from fedswe.analysis.scenario import Scenario
from fedswe.availability.schedule import Floats
from fedswe.errors import FedsweError, require
from fedswe.theory import assumption, staleness
from fedswe.theory.assumption import IntArray, window_delta

_COPIES = 100  # of simulated chains
_RAREST = 5  # clients listed one by one
_GRID = [f * 10**e for e in range(7) for f in (1, 2, 5)]  # windows that are listed


# Assumption 1 ------------------------------------------------------------------------------------------------
def assumption_report(scenario: Scenario, deltas: Sequence[float], period: int | None, confidence: float) -> Report:
    """delta(P) for some windows P, and P_delta for some delta."""
    require(len(deltas), "--delta is empty: give at least one number, e.g. --delta 0.05,0.1")
    for delta in deltas:
        assumption.check_delta(delta)
    window, profile = scenario.window(period), assumption.delta_profile(scenario.table)
    listed = sorted({p for p in _GRID if 2 * p <= scenario.horizon} | {window})
    rows = [{"period": p, "windows": scenario.horizon // p, "delta": profile[p - 1]} for p in listed]
    values: dict[str, Any] = {"period": window, "delta": profile[window - 1]}
    if scenario.known == "trace":
        what, band = "share of rounds", assumption.profile_limits(profile, scenario.m, confidence)
        for row in rows:
            row["interval"] = tuple(limits[row["period"] - 1] for limits in band)
        values["interval"] = [limits[window - 1] for limits in band]
        periods = [{"delta": d, **assumption.trace_period(scenario.trace, d, confidence)} for d in deltas]
        note = (
            f"intervals of {100 * confidence:g} %, for independent rounds; P_delta lies between possible and certified"
        )
    else:
        what, band, prob = "mean probability", None, scenario.prob
        for row in rows:
            row["client"] = int(assumption.window_means(prob, row["period"]).min(axis=0).argmin())
        values |= {
            "delta": window_delta(prob, window),
            "delta_max": assumption.delta_max(prob),
        }  # refuses an empty window
        periods = [{"delta": d, "period": assumption.smallest_period(profile, d)} for d in deltas]
        here, most = short(values["delta"]), short(values["delta_max"])
        note = f"Assumption 1 holds with P = {window}, delta = {here}; delta_max = {most}"
        if scenario.known == "chains":
            note = f"independent rounds with the same p_i would have P = {window}, delta = {here}; see theory staleness"
    values |= {"windows": frame(rows), "smallest_periods": frame(periods), "profile": profile}
    panel = Panel(
        f"Assumption 1: {scenario.name}, {scenario.m} clients", "window P (rounds)", "δ(P)",
        pd.DataFrame({"": profile}, index=np.arange(1, len(profile) + 1)), "log x", band=band,
        lines={f"{d:g}": d for d in deltas},
    )  # fmt: skip
    tables = {
        f"delta(P), the smallest {what} of any client in any window of P rounds": values["windows"],
        "the shortest window with that delta": values["smallest_periods"],
    }
    return Report(values, figure_of(panel), (4.6, 3.0), tables, [note])


# staleness ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class _Staleness:
    """What is known of t - tau_i(t), by probabilities, from a trace, or from simulated chains."""

    title: str
    table: pd.DataFrame
    echoes: Mapping[str, Floats | IntArray]  # [largest + 1], the reports with each echo; the first are these clients'
    over_time: dict[str, Floats | IntArray]  # by round
    values: dict[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    clients: pd.DataFrame | None = None  # a row for each; the first column sorts them
    bounds: Mapping[str, float] = field(default_factory=dict)  # on the curves


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
    quantiles = staleness.echo_quantiles(next(iter(found.echoes.values())), levels)
    echoes = frame([{"share_of_reports": q, "echo": int(e)} for q, e in zip(levels, quantiles, strict=True)])
    values = {**found.values, "staleness": found.table, "echo_quantiles": echoes, "by_client": found.clients}
    tables = {found.title: found.table, "echo t - tau_i of the clients that report, at most": echoes}
    if found.clients is not None:
        order = np.argsort(found.clients.iloc[:, 1].to_numpy(float), kind="stable")[:_RAREST]
        tables["the rarest clients"] = found.clients.iloc[order]
    tails = {name: pd.Series(1.0 - np.cumsum(counts) / counts.sum()) for name, counts in found.echoes.items()}
    shown = pd.DataFrame({name: tail.where(tail > 1e-6) for name, tail in tails.items()}).dropna(how="all")
    draw = figure_of(
        Panel("echo of the reports", "echo r", "share of reports with a larger echo", shown, "log y", "steps"),
        Panel(
            "staleness", "round t", r"$t - \tau_i(t)$", pd.DataFrame(found.over_time), lines=found.bounds
        ),
    )  # fmt: skip
    return Report(values, draw, (6.9, 2.7), tables, list(found.notes))


def _of_probabilities(scenario: Scenario, window: int) -> _Staleness:
    prob = scenario.prob
    moments = staleness.staleness_moments(prob)
    both = {"first": moments.first[:-1], "second": moments.second[:-1]}  # the rounds analysed, not the one after
    bounds: tuple[float, float] | tuple[None, None] = (None, None)
    try:
        delta = window_delta(prob, window)
        bounds = staleness.moment_bounds(window, delta)
        note = f"bounds with P = {window}, delta = {short(delta)}"
    except FedsweError as error:
        note = f"no bounds: {error}"
    rows = []
    for (name, moment), bound in zip(both.items(), bounds, strict=True):
        t, client = np.argwhere(moment >= moment.max() * (1.0 - 1e-6))[0]  # the first that reaches it, to six digits
        rows.append(
            {"moment": name, "mean": float(moment.mean()), "largest": float(moment.max()), "client": int(client),
             "round": int(t), "bound": bound}
        )  # fmt: skip
    mean = both["first"].mean(axis=0)
    order = np.argsort(mean)
    chosen = {"rarest": order[-1], "median": order[len(order) // 2], "most frequent": order[0]}
    columns = {
        "mean_probability": prob.mean(axis=0), "mean_staleness": mean, "largest_staleness": both["first"].max(axis=0)
    }  # fmt: skip
    return _Staleness(
        "staleness t - tau_i(t), exact",
        frame(rows),
        {"": staleness.echo_counts(prob).sum(axis=1)},
        {f"{n} (client {i})": both["first"][:, i] for n, i in chosen.items()},
        {"period": window},
        [note],
        _by_client(columns),
        {} if bounds[0] is None else {"bound": bounds[0]},
    )


def _by_client(columns: Mapping[str, Any]) -> pd.DataFrame:
    return pd.DataFrame({"client": range(len(next(iter(columns.values())))), **columns})


def _of_trace(scenario: Scenario) -> _Staleness:
    trace = scenario.trace
    facts, stale = assumption.trace_statistics(trace), assumption.realised_staleness(trace)
    values = {key: value for key, value in facts.items() if np.isscalar(value)}
    names = {"participations": "participations", "mean_gap": "mean_echo", "longest_gap": "longest_absence"}
    columns = {shown: facts[name] for name, shown in names.items()}
    return _Staleness(
        "the trace",
        frame([{"what": key.replace("_", " "), "value": value} for key, value in values.items()]),
        {"": np.bincount(stale[trace])},
        {"stalest client": stale.max(axis=1), "mean over clients": stale.mean(axis=1)},
        values,
        clients=_by_client(columns),
    )


def _of_chains(scenario: Scenario) -> _Staleness:
    require(scenario.prob.any(), "all probabilities are 0: no client ever reports")
    available = scenario.copies(scenario.horizon, _COPIES)
    rounds, copies, m = available.shape
    stale = assumption.realised_staleness(available.reshape(rounds, copies * m)).reshape(available.shape)
    independent = staleness.staleness_moments(scenario.prob)
    counts = {"chains": np.bincount(stale[available]), "coins": staleness.echo_counts(scenario.prob).sum(axis=1)}
    rows = []
    for power, (name, coins) in enumerate({"first": independent.first, "second": independent.second}.items(), 1):
        means = (stale.astype(np.float64) ** power).mean(axis=(0, 2))
        error = float(means.std(ddof=1) / np.sqrt(copies))
        rows.append(
            {"moment": name, "mean": float(means.mean()), "standard_error": error,
             "independent_coins": float(coins[:-1].mean())}
        )  # fmt: skip
    return _Staleness(
        f"staleness t - tau_i(t), {copies} simulated copies",
        frame(rows),
        counts,
        {"chains, mean over clients": stale.mean(axis=(1, 2)), "coins": independent.first[:-1].mean(axis=1)},
        {"copies": copies},
        ["the paper's bounds assume independent rounds and are not evaluated"],
    )
