"""How fast do the clients mix, for which k, and which learning rates does the theorem then allow?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from fedswe.analysis.report import Panel, Report, figure_of, frame, short
from fedswe.analysis.scenario import Scenario
from fedswe.availability.schedule import Floats
from fedswe.engine.base import Engine
from fedswe.errors import FedsweError, require
from fedswe.experiment.experiment import assemble
from fedswe.tasks.problem import Problem
from fedswe.tasks.quadratic import QuadraticProblem
from fedswe.theory import constants, mixing, rates
from fedswe.theory.assumption import FloatArray, IntArray, delta_max, window_delta

_SIZE = (4.6, 3.0)
_EXACT = 2e7  # clients squared times rounds of all different windows: beyond it, simulation is faster
_DRAWS = 1000
_ROUNDING = 1e-12  # error of the exact rho_k
_MIXED = 1 - 1e-9  # rho_k above this is 1 up to rounding
_DIVERGED = 1e50  # larger models leave no digits for differences of gradients


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
    one = window == 1
    bound = mixing.single_round_bound(scenario.m, k, delta) if one else mixing.block_bound(scenario.m, k, delta, window)
    return bound.log_gap / math.log(10)


def _rounds_to_halve(rate: float, window: int) -> float:
    """Each window multiplies the consensus error by at most rho in expectation, when no gradients are added."""
    if rate >= _MIXED:
        return math.inf
    return window * math.log(2) / -math.log(rate) if rate > 0 else 0.0


# the constants of Assumptions 2-4, from the gradients of a task ------------------------------------------------
def measure(
    problem: Problem, points: FloatArray, batch_size: int, draws: int = 20, iterations: int = 20
) -> tuple[FloatArray, constants.VarianceEstimate, constants.DissimilarityEstimate]:
    """L of each client, sigma^2, and (beta, zeta), at the given models [n, d].

    Build the problem in float64: curvature is a difference of gradients.
    """

    def full_gradients(clients: IntArray, x: FloatArray) -> FloatArray:
        return _array(problem.full_gradients(torch.as_tensor(x).to(problem.start), torch.as_tensor(clients)))

    def stochastic_gradients(clients: IntArray, x: FloatArray, draw: int) -> FloatArray:
        (batch,) = problem.draw(torch.as_tensor(clients), draw, 1, batch_size)  # the first step of round `draw`
        return _array(problem.gradients(torch.as_tensor(x).to(problem.start), batch))

    return (
        constants.estimate_smoothness(full_gradients, problem.m, points, iterations=iterations),
        constants.estimate_gradient_variance(full_gradients, stochastic_gradients, problem.m, points, draws=draws),
        constants.estimate_dissimilarity(full_gradients, problem.m, points),
    )


def models_of_a_run(engine: Engine, rounds: int, number: int) -> FloatArray:
    """The server model at `number` evenly spaced rounds of the first `rounds`, x^0 among them."""
    require(rounds >= 0, f"--along {rounds} must be 0 (the start only) or more rounds")
    require(number >= 1, f"{number} points: give at least one")
    models = []
    for t in np.unique(np.linspace(0, rounds, number).round().astype(int)):
        while engine.t < t:
            engine.step()
        models.append(_array(engine.server_model()))
        require(
            bool((np.abs(models[-1]) < _DIVERGED).all()),
            f"the run has diverged by round {t}: lower local.lr, or estimate over fewer rounds (--along)",
        )
    return np.stack(models)


def _array(x: torch.Tensor) -> FloatArray:
    return np.asarray(x.detach().to("cpu", torch.float64).numpy())


# learning rates ----------------------------------------------------------------------------------------------
def rates_report(
    scenario: Scenario, ks: Sequence[float], period: int | None, draws: int, along: int, points: int
) -> Report:
    """The task's constants along the first `along` rounds of the run, then limits and bounds for every k."""
    experiment, window, steps = scenario.experiment, scenario.window(period), scenario.experiment.local.steps
    delta, largest, m, rounds = (
        window_delta(scenario.table, window),
        delta_max(scenario.table),
        scenario.m,
        experiment.rounds,
    )
    mixed = mixing_table(scenario, ks, window, draws, 0.95)
    engine = assemble(replace(experiment, dtype="float64"))
    models = models_of_a_run(engine, min(along, rounds), points)
    per_client, variance, dissimilarity = measure(engine.problem, models, experiment.local.batch_size)
    smoothness, beta, zeta = float(per_client.max()), dissimilarity.beta, dissimilarity.zeta
    gap, exact = _initial_gap(engine.problem)
    choice = rates.corollary_rates(rounds=rounds, steps=steps, smoothness=smoothness, delta=delta, clients=m)
    limits, terms = [], []
    for k, rho in zip(mixed["k"], mixed["rho"], strict=True):
        limits.append({"k": k, "rho": rho, "product": None, "local": None, "corollary_rounds": math.inf})
        terms.append({"k": k, "initial_gap": None, "noise": None, "mixing": None, "total": None})
        if rho < _MIXED:
            known: dict[str, Any] = {"rho": rho, "delta": delta, "period": window, "clients": m, "k": k, "steps": steps}
            limits[-1] |= asdict(rates.theorem_rate_limits(**known, smoothness=smoothness, beta=beta))
            limits[-1]["corollary_rounds"] = float(rates.corollary_rounds(**known, beta=beta))
            bound = rates.corollary_bound(
                **known, rounds=rounds, initial_gap=gap, smoothness=smoothness, sigma_squared=variance.value,
                zeta=zeta, delta_max=largest,
            )  # fmt: skip
            terms[-1] |= {**asdict(bound), "total": bound.total}
    seen = f"at {len(models)} models of the run"
    error = f"standard error {short(variance.standard_error)}; mean {short(variance.mean)}"
    listed = frame([
        {"constant": "L", "value": smoothness, "how": f"curvature of client {per_client.argmax()}, {seen}"},
        {"constant": "sigma^2", "value": variance.value, "how": error},
        {"constant": "beta", "value": beta, "how": seen},
        {"constant": "zeta", "value": zeta, "how": seen},
        {"constant": "F(x^0) - F*", "value": gap, "how": "exact" if exact else "at most: F* taken as 0"},
        {"constant": "delta", "value": delta, "how": f"window P = {window}"},
        {"constant": "delta_max", "value": largest, "how": "largest p_i^t"},
    ])  # fmt: skip
    local_lr, lr = experiment.local.lr_at(0), experiment.algorithm.lr
    notes = [
        f"rates of the run: eta_l = {short(local_lr)}, eta_l eta_g = {short(local_lr * lr)}; the corollary's choice "
        f"for T = {rounds}: eta_l = {short(choice.local_lr)}, eta_g = {short(choice.lr)}",
        "bounds hold up to a constant that the paper does not give, here 1: compare values of k with each other, "
        "not with a loss",
        "L, sigma^2, beta, zeta are lower bounds: the largest values at these models",
    ]
    if scenario.known == "trace":
        notes.append("delta and rho_k are estimates from the trace")
    if scenario.known == "chains":
        notes.append("the theorem assumes independent rounds: with markov availability it is a comparison, not a bound")
    values = {
        "period": window, "delta": delta, "delta_max": largest, "smoothness": smoothness,
        "sigma_squared": variance.value, "sigma_squared_standard_error": variance.standard_error,
        "beta": beta, "zeta": zeta, "initial_gap": gap, "initial_gap_is_exact": exact, "points": len(models),
        "rounds": rounds, "corollary_rates": asdict(choice), "rates_of_the_run": {"local_lr": local_lr, "lr": lr},
        "rate_limits": frame(limits), "bounds": frame(terms),
    }  # fmt: skip
    tables = {
        "constants": listed,
        "eta_l eta_g and eta_l that the theorem admits, and from which T on it admits the corollary's rates": (
            values["rate_limits"].rename(columns={"product": "eta_l eta_g up to", "local": "eta_l up to"})
        ),
        f"the corollary's bound on the mean squared gradient after {rounds} rounds, constants 1": values["bounds"],
    }
    curves = values["bounds"].set_index("k").dropna().astype(float)
    curves = curves.loc[:, (curves != 0).any()]  # a logarithmic axis cannot show zeros
    panel = Panel(
        f"terms of the corollary after {rounds} rounds, constants 1", "k", "", curves, "k, log y", "o-"
    )  # fmt: skip
    return Report(values, figure_of(panel), _SIZE, tables, notes)


def _initial_gap(problem: Problem) -> tuple[float, bool]:
    """F(x^0) - F*, and whether it is exact; otherwise F* is taken as 0, a lower bound of these losses."""
    start = problem.evaluate(problem.start)["train_loss"]
    if isinstance(problem, QuadraticProblem):
        return start - problem.evaluate(problem.optimum)["train_loss"], True
    return start, False
