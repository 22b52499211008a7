"""The paper's quantities for given clients: Assumption 1, staleness, mixing, and the rates that the theorem allows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from fedswe.analysis.report import Panel, Report, figure_of, frame, short
from fedswe.analysis.scenario import Scenario
from fedswe.availability.schedule import Floats
from fedswe.errors import FedsweError, require
from fedswe.theory import assumption, mixing, rates, staleness
from fedswe.theory.assumption import IntArray, window_delta

_COPIES = 100  # of simulated chains
_RAREST = 5  # clients listed one by one
_GRID = [f * 10**e for e in range(7) for f in (1, 2, 5)]  # windows that are listed
_SIZE = (4.6, 3.0)
_EXACT = 2e7  # clients squared times rounds of all different windows: beyond it, simulation is faster
_DRAWS = 1000
_ROUNDING = 1e-12  # error of the exact rho_k
_MIXED = 1 - 1e-9  # rho_k above this is 1 up to rounding


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
        values |= {"delta": window_delta(prob, window), "delta_max": float(prob.max())}  # refuses an empty window
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
    return Report(values, figure_of(panel), _SIZE, tables, [note])


# staleness ---------------------------------------------------------------------------------------------------
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


def _staleness(
    levels: Sequence[float],
    title: str,
    table: pd.DataFrame,
    echoes: Mapping[str, Floats | IntArray],  # [largest + 1], the reports with each echo; the first are these clients'
    over_time: Mapping[str, Floats | IntArray],  # by round
    values: Mapping[str, Any],
    notes: Sequence[str] = (),
    clients: Mapping[str, Any] | None = None,  # of each; the first column sorts them
    bound: float | None = None,  # on the curves
) -> Report:
    """What is known of t - tau_i(t), by probabilities, from a trace, or from simulated chains."""
    quantiles = staleness.echo_quantiles(next(iter(echoes.values())), levels)
    shown = frame([{"share_of_reports": q, "echo": int(e)} for q, e in zip(levels, quantiles, strict=True)])
    tables, by_client = {title: table, "echo t - tau_i of the clients that report, at most": shown}, None
    if clients is not None:
        by_client = pd.DataFrame(clients).rename_axis("client").reset_index()
        order = np.argsort(by_client.iloc[:, 1].to_numpy(float), kind="stable")[:_RAREST]
        tables["the rarest clients"] = by_client.iloc[order]
    tails = pd.DataFrame({name: pd.Series(1.0 - np.cumsum(n) / n.sum()) for name, n in echoes.items()})
    tails = tails.where(tails > 1e-6).dropna(how="all")
    draw = figure_of(
        Panel("echo of the reports", "echo r", "share of reports with a larger echo", tails, "log y", "steps"),
        Panel(
            "staleness", "round t", r"$t - \tau_i(t)$", pd.DataFrame(over_time),
            lines={} if bound is None else {"bound": bound},
        ),
    )  # fmt: skip
    every = {**values, "staleness": table, "echo_quantiles": shown, "by_client": by_client}
    return Report(every, draw, (6.9, 2.7), tables, list(notes))


def _of_probabilities(scenario: Scenario, levels: Sequence[float], window: int) -> Report:
    prob = scenario.prob
    first, second = (moment[:-1] for moment in staleness.staleness_moments(prob))  # without the round after the last
    bounds: tuple[float, float] | tuple[None, None] = (None, None)
    try:
        delta = window_delta(prob, window)
        bounds = staleness.moment_bounds(window, delta)
        note = f"bounds with P = {window}, delta = {short(delta)}"
    except FedsweError as error:
        note = f"no bounds: {error}"
    rows = []
    for name, moment, bound in zip(("first", "second"), (first, second), bounds, strict=True):
        t, client = np.argwhere(moment >= moment.max() * (1.0 - 1e-6))[0]  # the first that reaches it, to six digits
        rows.append(
            {"moment": name, "mean": float(moment.mean()), "largest": float(moment.max()), "client": int(client),
             "round": int(t), "bound": bound}
        )  # fmt: skip
    mean = first.mean(axis=0)
    order = np.argsort(mean)
    chosen = {"rarest": order[-1], "median": order[len(order) // 2], "most frequent": order[0]}
    over_time = {f"{n} (client {i})": first[:, i] for n, i in chosen.items()}
    clients = {
        "mean_probability": prob.mean(axis=0), "mean_staleness": mean, "largest_staleness": first.max(axis=0)
    }  # fmt: skip
    echoes = {"": staleness.echo_counts(prob).sum(axis=1)}
    title = "staleness t - tau_i(t), exact"
    return _staleness(levels, title, frame(rows), echoes, over_time, {"period": window}, [note], clients, bounds[0])


def _of_trace(scenario: Scenario, levels: Sequence[float]) -> Report:
    trace = scenario.trace
    facts, stale = assumption.trace_statistics(trace), assumption.realised_staleness(trace)
    values = {key: value for key, value in facts.items() if np.isscalar(value)}
    names = {"participations": "participations", "mean_gap": "mean_echo", "longest_gap": "longest_absence"}
    table = frame([{"what": key.replace("_", " "), "value": value} for key, value in values.items()])
    over_time = {"stalest client": stale.max(axis=1), "mean over clients": stale.mean(axis=1)}
    clients = {shown: facts[name] for name, shown in names.items()}
    echoes = {"": np.bincount(stale[trace])}
    return _staleness(levels, "the trace", table, echoes, over_time, values, clients=clients)


def _of_chains(scenario: Scenario, levels: Sequence[float]) -> Report:
    require(scenario.prob.any(), "all probabilities are 0: no client ever reports")
    available = scenario.copies(scenario.horizon, _COPIES)
    rounds, copies, m = available.shape
    stale = assumption.realised_staleness(available.reshape(rounds, copies * m)).reshape(available.shape)
    independent = staleness.staleness_moments(scenario.prob)
    rows = []
    for power, name, coins in zip((1, 2), ("first", "second"), independent, strict=True):
        means = (stale.astype(np.float64) ** power).mean(axis=(0, 2))
        error = float(means.std(ddof=1) / np.sqrt(copies))
        rows.append(
            {"moment": name, "mean": float(means.mean()), "standard_error": error,
             "independent_coins": float(coins[:-1].mean())}
        )  # fmt: skip
    return _staleness(
        levels,
        f"staleness t - tau_i(t), {copies} simulated copies",
        frame(rows),
        {"chains": np.bincount(stale[available]), "coins": staleness.echo_counts(scenario.prob).sum(axis=1)},
        {"chains, mean over clients": stale.mean(axis=(1, 2)), "coins": independent[0][:-1].mean(axis=1)},
        {"copies": copies},
        ["the paper's bounds assume independent rounds and are not evaluated"],
    )


# mixing ------------------------------------------------------------------------------------------------------
def mixing_table(scenario: Scenario, ks: Sequence[float], window: int, draws: int, confidence: float) -> pd.DataFrame:
    """rho of the worst window for every k; with draws = 0 it is exact where that is fast enough, otherwise simulated.

    `interval` and `draws` are there if it is not exact, `realised_worst_window` for a trace.
    """
    require(len(ks), "--k is empty: give at least one number, e.g. --k 0,1,10")
    for k in ks:
        mixing.check_interpolation(scenario.m, k)
    require(draws >= 0, f"--draws must be 0 (choose) or positive, not {draws}")
    seed, known = scenario.experiment.seed, {}
    if scenario.known == "trace":
        require(draws == 0, "--draws simulates windows, but the windows of a trace are given: leave it out")
        number = scenario.horizon // window
        require(
            number >= 4,
            f"windows of {window} rounds in the trace: {number}, too few for an interval; give a --period "
            f"of at most {scenario.horizon // 4}",
        )
        windows = scenario.trace[: number * window].reshape(number, window, scenario.m)
        known = {"realised_worst_window": [max(mixing.realised_rho(w, k) for w in windows) for k in ks]}
        estimates = [mixing.rho_from_windows(windows, k, 0, confidence) for k in ks]
    elif scenario.known == "chains":
        windows = np.ascontiguousarray(scenario.copies(window, draws or _DRAWS).transpose(1, 0, 2))
        estimates = [mixing.rho_from_windows(windows, k, seed, confidence) for k in ks]
    else:
        different = _different_windows(scenario, window)
        if draws == 0 and len(different) * window * scenario.m**2 <= _EXACT:
            exact = [max(mixing.rho(w, k) for w in different) for k in ks]
            return pd.DataFrame({"k": ks, "rho": [value if value > _ROUNDING else 0.0 for value in exact]})
        estimates = [_worst(different, k, draws or _DRAWS, seed, confidence) for k in ks]
    intervals = [(e.lower, e.upper) for e in estimates]
    rhos, numbers = [e.rho for e in estimates], [e.draws for e in estimates]
    return pd.DataFrame({"k": ks, "rho": rhos, "interval": intervals, "draws": numbers, **known})


def _different_windows(scenario: Scenario, window: int) -> Floats:
    """The windows of the probabilities that differ [n, window, m]."""
    return np.unique(scenario.prob[: scenario.horizon // window * window].reshape(-1, window, scenario.m), axis=0)


def _worst(windows: Floats, k: float, draws: int, seed: int, confidence: float) -> mixing.MixingEstimate:
    """The largest rho of several windows; each interval gets a part of the error, so that all hold at once."""
    each = 1 - (1 - confidence) / len(windows)
    estimates = [mixing.rho_monte_carlo(w, k, draws, seed, each) for w in windows]
    rho, lower, upper = (max(getattr(e, name) for e in estimates) for name in ("rho", "lower", "upper"))
    return mixing.MixingEstimate(rho, lower, upper, draws)


def mixing_report(scenario: Scenario, ks: Sequence[float], period: int | None, draws: int, confidence: float) -> Report:
    """rho_k for every k with the spectral bound, and the limit of large k."""
    window, limit = scenario.window(period), None
    table = mixing_table(scenario, ks, window, draws, confidence)
    sampled = int(table.pop("draws").iloc[0]) if "draws" in table else 0
    curves = table.drop(columns="interval", errors="ignore").set_index("k")
    band = tuple(np.transpose(table["interval"].tolist())) if sampled else None
    table["rounds_to_halve"] = [_rounds_to_halve(rho, window) for rho in table["rho"]]
    gaps = [_log10_gap(scenario, k, window) for k in ks]
    if any(gaps):
        table["log10_gap"] = gaps
    shown = table
    if scenario.known == "probabilities":
        limit = max(mixing.rho_limit(w) for w in _different_windows(scenario, window))
        last = pd.DataFrame([{"k": math.inf, "rho": limit, "rounds_to_halve": _rounds_to_halve(limit, window)}])
        shown = pd.concat([table, last], ignore_index=True)
    halving = "rounds to halve the consensus error, at least that fast in expectation when no gradients are added"
    notes = [f"from {sampled} simulated windows, {100 * confidence:g} % interval"] if sampled else []
    notes.append(halving)
    if any(gaps):
        notes.append("the spectral bound is 1 - 10^(log10 gap)")
    if scenario.known == "trace":
        notes[0] = (
            f"rho_k assumes that the {sampled} windows of the trace are independent draws of one distribution; "
            "the worst window is exact"
        )
    if scenario.known == "chains":
        notes = [
            f"from {sampled} simulated windows; successive windows depend on each other, so n windows do not contract "
            "by rho_k to the power n"
        ]
    title = f"rho_k = lambda_2(E[W W^T]) over windows of {window} round{'s' if window > 1 else ''}"
    panel = Panel(
        f"{scenario.name}, {scenario.m} clients, windows of {window} rounds", "k", r"$\rho_k$", curves, "k", "o-", band,
        {} if limit is None else {"k → ∞": limit},
    )  # fmt: skip
    values = {"period": window, "rho": table, "limit_of_large_k": limit}
    return Report(values, figure_of(panel), _SIZE, {title: shown}, notes)


def _log10_gap(scenario: Scenario, k: float, window: int) -> float | None:
    """Of the spectral bound on 1 - rho_k; None where it does not apply."""
    if scenario.known != "probabilities" or (window > 1 and k == 0):
        return None
    try:
        delta = window_delta(scenario.prob, window)
    except FedsweError:
        return None
    return mixing.log_gap(scenario.m, k, delta, window) / math.log(10)


def _rounds_to_halve(rate: float, window: int) -> float:
    """Each window multiplies the consensus error by at most rho in expectation, when no gradients are added."""
    if rate >= _MIXED:
        return math.inf
    return window * math.log(2) / -math.log(rate) if rate > 0 else 0.0


# learning rates ----------------------------------------------------------------------------------------------
def rates_report(
    scenario: Scenario, ks: Sequence[float], period: int | None, draws: int, beta: float, **of_task: Any
) -> Report:
    """What the theorem admits and the corollary bounds for every k, with `smoothness`, `sigma_squared`, `zeta` and
    `initial_gap` of a task."""
    experiment, window = scenario.experiment, scenario.window(period)
    steps, rounds, m = experiment.local.steps, experiment.rounds, scenario.m
    require(steps, "the bounds are for clients that take as many steps as each other: use local.steps")
    delta, largest = window_delta(scenario.table, window), float(scenario.table.max())
    mixed = mixing_table(scenario, ks, window, draws, 0.95)
    choice = rates.corollary_rates(rounds=rounds, steps=steps, smoothness=of_task["smoothness"], delta=delta, clients=m)
    limits, terms = [], []
    for k, rho in zip(mixed["k"], mixed["rho"], strict=True):
        limits.append({"k": k, "rho": rho, "product": None, "local": None, "corollary_rounds": math.inf})
        terms.append({"k": k, "initial_gap": None, "noise": None, "mixing": None, "total": None})
        if rho < _MIXED:
            known: dict[str, Any] = {"rho": rho, "delta": delta, "period": window, "clients": m, "k": k, "steps": steps}
            limits[-1] |= asdict(rates.theorem_rate_limits(**known, smoothness=of_task["smoothness"], beta=beta))
            limits[-1]["corollary_rounds"] = float(rates.corollary_rounds(**known, beta=beta))
            bound = rates.corollary_bound(**known, **of_task, rounds=rounds, delta_max=largest)
            terms[-1] |= {**asdict(bound), "total": bound.total}
    local_lr, lr = experiment.local.lr_at(0), experiment.algorithm.lr
    notes = [
        f"P = {window}, delta = {short(delta)}, delta_max = {short(largest)}",
        f"rates of the run: eta_l = {short(local_lr)}, eta_l eta_g = {short(local_lr * lr)}; the corollary's choice "
        f"for T = {rounds}: eta_l = {short(choice.local_lr)}, eta_g = {short(choice.lr)}",
        "bounds hold up to a constant that the paper does not give, here 1: compare values of k with each other, "
        "not with a loss",
    ]
    if scenario.known == "trace":
        notes.append("delta and rho_k are estimates from the trace")
    if scenario.known == "chains":
        notes.append("the theorem assumes independent rounds: with markov availability it is a comparison, not a bound")
    values = {
        "period": window, "delta": delta, "delta_max": largest, **of_task, "beta": beta, "rounds": rounds,
        "corollary_rates": asdict(choice), "rates_of_the_run": {"local_lr": local_lr, "lr": lr},
        "rate_limits": frame(limits), "bounds": frame(terms),
    }  # fmt: skip
    tables = {
        "eta_l eta_g and eta_l that the theorem admits, and from which T on it admits the corollary's rates": (
            values["rate_limits"].rename(columns={"product": "eta_l eta_g up to", "local": "eta_l up to"})
        ),
        f"the corollary's bound on the mean squared gradient after {rounds} rounds, constants 1": values["bounds"],
    }
    curves = values["bounds"].set_index("k").dropna().astype(float)
    curves = curves.loc[:, (curves != 0).any()]  # a logarithmic axis cannot show zeros
    panel = Panel(f"terms of the corollary after {rounds} rounds, constants 1", "k", "", curves, "k, log y", "o-")
    return Report(values, figure_of(panel), _SIZE, tables, notes)
