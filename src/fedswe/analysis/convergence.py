"""How fast do the clients mix, for which k, and which learning rates does the theorem then allow?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from fedswe.analysis.report import Panel, Report, figure_of, frame, short
from fedswe.analysis.scenario import Scenario
from fedswe.availability.schedule import Floats
from fedswe.errors import FedsweError, require
from fedswe.theory import mixing, rates
from fedswe.theory.assumption import delta_max, window_delta

_SIZE = (4.6, 3.0)
_EXACT = 2e7  # clients squared times rounds of all different windows: beyond it, simulation is faster
_DRAWS = 1000
_ROUNDING = 1e-12  # error of the exact rho_k
_MIXED = 1 - 1e-9  # rho_k above this is 1 up to rounding


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
    return mixing.MixingEstimate(rho, lower, upper, confidence, draws)


def mixing_report(scenario: Scenario, ks: Sequence[float], period: int | None, draws: int, confidence: float) -> Report:
    """rho_k for every k with the spectral bound, and the limit of large k."""
    window, limit = scenario.window(period), None
    table = mixing_table(scenario, ks, window, draws, confidence)
    sampled = int(table.pop("draws").iloc[0]) if "draws" in table else 0
    curves, band = table.drop(columns="interval", errors="ignore").set_index("k"), None
    if sampled:
        band = tuple(np.transpose(table["interval"].tolist()))
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
    delta, largest, smoothness = window_delta(scenario.table, window), delta_max(scenario.table), of_task["smoothness"]
    mixed = mixing_table(scenario, ks, window, draws, 0.95)
    choice = rates.corollary_rates(rounds=rounds, steps=steps, smoothness=smoothness, delta=delta, clients=m)
    limits, terms = [], []
    for k, rho in zip(mixed["k"], mixed["rho"], strict=True):
        limits.append({"k": k, "rho": rho, "product": None, "local": None, "corollary_rounds": math.inf})
        terms.append({"k": k, "initial_gap": None, "noise": None, "mixing": None, "total": None})
        if rho < _MIXED:
            known: dict[str, Any] = {"rho": rho, "delta": delta, "period": window, "clients": m, "k": k, "steps": steps}
            limits[-1] |= asdict(rates.theorem_rate_limits(**known, smoothness=smoothness, beta=beta))
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
