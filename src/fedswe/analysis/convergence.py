"""How fast do the clients mix, for which k, and which learning rates does the theorem then allow?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fedswe.analysis.report import Report, Rows, general, interval, or_else, short
from fedswe.analysis.scenario import Scenario
from fedswe.availability.schedule import Floats
from fedswe.engine.base import Engine
from fedswe.errors import FedsweError, require
from fedswe.experiment.experiment import assemble
from fedswe.plotting import BLUE, GREEN, GREY, ORANGE, RED, count_axis, format_axes, message, reference_line
from fedswe.tasks.problem import Problem
from fedswe.tasks.quadratic import QuadraticProblem
from fedswe.theory import constants, mixing, rates
from fedswe.theory.assumption import FloatArray, IntArray, delta_max, window_delta

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SIZE = (4.6, 3.0)
_EXACT = 2e7  # clients squared times rounds of all different windows: beyond it, simulation is faster
_DRAWS = 1000
_ROUNDING = 1e-12  # error of the exact rho_k
_MIXED = 1 - 1e-9  # rho_k above this is 1 up to rounding
_DIVERGED = 1e50  # larger models leave no digits for differences of gradients
_TERMS = {  # of the corollary's bound
    "initial_gap": ("initial gap", BLUE),
    "noise": ("noise", ORANGE),
    "mixing": ("mixing", GREEN),
    "total": ("sum", RED),
}


# mixing ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Mixing:
    """rho_k of the worst window, exact or estimated."""

    k: float
    rho: float
    estimate: mixing.MixingEstimate | None = None  # when it is not exact
    realised: float | None = None  # for a trace: the value of its worst window


def mixing_of(scenario: Scenario, ks: Sequence[float], window: int, draws: int, confidence: float) -> list[Mixing]:
    """rho_k for every k; with draws = 0 it is exact where that is fast enough, otherwise simulated."""
    require(len(ks), "--k is empty: give at least one number, e.g. --k 0,1,10")
    for k in ks:
        mixing.check_interpolation(scenario.m, k)
    require(draws >= 0, f"--draws must be 0 (choose) or positive, not {draws}")
    seed = scenario.experiment.seed
    if scenario.known == "trace":
        require(draws == 0, "--draws simulates windows, but the windows of a trace are given: leave it out")
        number = scenario.horizon // window
        require(
            number >= 4,
            f"windows of {window} rounds in the trace: {number}, too few for an interval; give a --period "
            f"of at most {scenario.horizon // 4}",
        )
        windows = scenario.trace[: number * window].reshape(number, window, scenario.m)
        worst = [max(mixing.realised_rho(w, k) for w in windows) for k in ks]
        estimates = [mixing.rho_from_windows(windows, k, 0, confidence) for k in ks]
        return [Mixing(k, e.rho, e, w) for k, e, w in zip(ks, estimates, worst, strict=True)]
    if scenario.known == "chains":
        windows = np.ascontiguousarray(scenario.copies(window, draws or _DRAWS).transpose(1, 0, 2))
        estimates = [mixing.rho_from_windows(windows, k, seed, confidence) for k in ks]
    else:
        different = _different_windows(scenario, window)
        if draws == 0 and len(different) * window * scenario.m**2 <= _EXACT:
            exact = [max(mixing.rho(w, k) for w in different) for k in ks]
            return [Mixing(k, value if value > _ROUNDING else 0.0) for k, value in zip(ks, exact, strict=True)]
        estimates = [_worst(different, k, draws or _DRAWS, seed, confidence) for k in ks]
    return [Mixing(k, e.rho, e) for k, e in zip(ks, estimates, strict=True)]


def _different_windows(scenario: Scenario, window: int) -> Floats:
    """The windows of the probabilities that differ [n, window, m]."""
    return np.unique(scenario.prob[: scenario.horizon // window * window].reshape(-1, window, scenario.m), axis=0)


def _worst(windows: Floats, k: float, draws: int, seed: int, confidence: float) -> mixing.MixingEstimate:
    """The largest rho of several windows; each interval gets a part of the error, so that all hold at once."""
    each = 1 - (1 - confidence) / len(windows)
    estimates = [mixing.rho_monte_carlo(w, k, draws, seed, each) for w in windows]
    rho, lower, upper = (max(getattr(e, name) for e in estimates) for name in ("rho", "lower", "upper"))
    return mixing.MixingEstimate(rho, lower, upper, confidence, draws)


def mixing_report(
    scenario: Scenario, ks: Sequence[float], period: int | None, draws: int, confidence: float
) -> Report:  # fmt: skip
    """rho_k for every k with the spectral bounds, and the limit of large k."""
    window, percent = scenario.window(period), f"{100 * confidence:g} %"
    found = mixing_of(scenario, ks, window, draws, confidence)
    known = scenario.known == "probabilities"
    limit = max(mixing.rho_limit(w) for w in _different_windows(scenario, window)) if known else None
    rows: list[dict[str, Any]] = [
        {
            "k": f.k,
            "rho": f.rho,
            "interval": None if f.estimate is None else [f.estimate.lower, f.estimate.upper],
            "realised_worst_window": f.realised,
            "rounds_to_halve": _rounds_to_halve(f.rho, window),
            **_bounds(scenario, f.k, window),
        }
        for f in found
    ]
    printed = any(row["bound"] != row["bound_as_printed"] for row in rows)

    def shown(row: dict[str, Any]) -> dict[str, Any]:
        return {
            "k": general(row["k"]),
            "rho_k": row["rho"],
            **({f"{percent} interval": interval(*row["interval"])} if row["interval"] else {}),
            **({} if row["realised_worst_window"] is None else {"worst window": row["realised_worst_window"]}),
            "rounds to halve": or_else(row["rounds_to_halve"], "never"),
            **({"spectral bound": _bound(row["bound"])} if any(row["bound"] for row in rows) else {}),
            **({"as printed": _bound(row["bound_as_printed"])} if printed else {}),
        }

    shown_rows = [shown(row) for row in rows]
    if limit is not None:
        halved = or_else(_rounds_to_halve(limit, window), "never")
        shown_rows.append({"k": general(math.inf), "rho_k": limit, "rounds to halve": halved})
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

    values = {"period": window, "rho": rows, "limit_of_large_k": limit}
    return Report(values, draw, _SIZE, {title: shown_rows}, _mixing_notes(scenario, found, percent))


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
        both = [of(scenario.m, k, delta) for of in (mixing.single_round_bound, mixing.single_round_bound_printed)]
    else:
        both = [of(scenario.m, k, delta, window) for of in (mixing.block_bound, mixing.block_bound_printed)]
    return dict(zip(none, map(asdict, both), strict=True))


def _rounds_to_halve(rate: float, window: int) -> float:
    """Each window multiplies the consensus error by at most rho in expectation, when no gradients are added."""
    if rate >= _MIXED:
        return math.inf
    return window * math.log(2) / -math.log(rate) if rate > 0 else 0.0


def _bound(bound: dict[str, float] | None) -> str:
    if bound is None:
        return short(None)
    exponent = bound["log_gap"] / math.log(10)
    return f"1 - 10^{exponent:.1f}" if exponent < -8 else short(bound["bound"])


def _mixing_notes(scenario: Scenario, found: Sequence[Mixing], percent: str) -> list[str]:
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
    return [*([f"from {draws} simulated windows, {percent} interval"] if draws else []), halving]


# the constants of Assumptions 2-4, from the gradients of a task ------------------------------------------------
@dataclass(frozen=True, eq=False)
class Constants:
    """L, sigma^2 and (beta, zeta) at some models."""

    smoothness: constants.SmoothnessEstimate
    variance: constants.VarianceEstimate
    dissimilarity: constants.DissimilarityEstimate


def measure(
    problem: Problem, points: FloatArray, batch_size: int, draws: int = 20, iterations: int = 20
) -> Constants:  # fmt: skip
    """Estimate at the given models [n, d]. Build the problem in float64: curvature is a difference of gradients."""

    def full_gradients(clients: IntArray, x: FloatArray) -> FloatArray:
        return _array(problem.full_gradients(torch.as_tensor(x).to(problem.start), torch.as_tensor(clients)))

    def stochastic_gradients(clients: IntArray, x: FloatArray, draw: int) -> FloatArray:
        (batch,) = problem.draw(torch.as_tensor(clients), draw, 1, batch_size)  # the first step of round `draw`
        return _array(problem.gradients(torch.as_tensor(x).to(problem.start), batch))

    return Constants(
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
) -> Report:  # fmt: skip
    """The task's constants along the first `along` rounds of the run, then limits and bounds for every k."""
    experiment, window, steps = scenario.experiment, scenario.window(period), scenario.experiment.local.steps
    delta, largest = window_delta(scenario.table, window), delta_max(scenario.table)
    mixed = mixing_of(scenario, ks, window, draws, 0.95)
    engine = assemble(replace(experiment, dtype="float64"))
    models = models_of_a_run(engine, min(along, experiment.rounds), points)
    found = measure(engine.problem, models, experiment.local.batch_size)
    gap, exact = _initial_gap(engine.problem)
    smoothness, variance, beta, zeta = (
        found.smoothness.value, found.variance, found.dissimilarity.beta, found.dissimilarity.zeta,
    )  # fmt: skip
    choice = rates.corollary_rates(
        rounds=experiment.rounds, steps=steps, smoothness=smoothness, delta=delta, clients=scenario.m
    )

    def at(k: float, rho: float) -> dict[str, Any]:
        """What the theorem and the corollary say for one k; None where rho_k is 1."""
        if rho >= _MIXED:
            return {"k": k, "rho": rho, "rate_limits": None, "corollary_rounds": None, "bound": None}
        known: dict[str, Any] = {
            "rho": rho, "delta": delta, "period": window, "clients": scenario.m, "k": k, "steps": steps,
        }  # fmt: skip
        bound = rates.corollary_bound(
            **known, rounds=experiment.rounds, initial_gap=gap, smoothness=smoothness,
            sigma_squared=variance.value, zeta=zeta, delta_max=largest,
        )  # fmt: skip
        return {
            "k": k,
            "rho": rho,
            "rate_limits": asdict(rates.theorem_rate_limits(**known, smoothness=smoothness, beta=beta)),
            "corollary_rounds": rates.corollary_rounds(**known, beta=beta),
            "bound": {**asdict(bound), "total": bound.total},
        }

    local_lr, lr = experiment.local.lr_at(0), experiment.algorithm.lr
    values: dict[str, Any] = {
        "period": window,
        "delta": delta,
        "delta_max": largest,
        "smoothness": smoothness,
        "sigma_squared": variance.value,
        "sigma_squared_standard_error": variance.standard_error,
        "beta": beta,
        "zeta": zeta,
        "initial_gap": gap,
        "initial_gap_is_exact": exact,
        "points": len(models),
        "rounds": experiment.rounds,
        "corollary_rates": asdict(choice),
        "rates_of_the_run": {"local_lr": local_lr, "lr": lr},
        "by_k": [at(f.k, f.rho) for f in mixed],
    }
    notes = [
        f"rates of the run: eta_l = {short(local_lr)}, eta_l eta_g = {short(local_lr * lr)}; the corollary's choice "
        f"for T = {experiment.rounds}: eta_l = {short(choice.local_lr)}, eta_g = {short(choice.lr)}",
        "bounds hold up to a constant that the paper does not give, here 1: compare values of k with each other, "
        "not with a loss",
        "L, sigma^2, beta, zeta are lower bounds: the largest values at these models",
    ]
    if scenario.known == "trace":
        notes.append("delta and rho_k are estimates from the trace")
    if scenario.known == "chains":
        notes.append("the theorem assumes independent rounds: with markov availability it is a comparison, not a bound")

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        shown = [entry for entry in values["by_k"] if entry["bound"] is not None]
        for key, (name, color) in _TERMS.items():
            y = [entry["bound"][key] for entry in shown]
            if any(y):  # a logarithmic axis cannot show zeros
                style = {"linewidth": 5, "alpha": 0.3} if key == "total" else {"marker": "o", "markersize": 4}
                axes.plot([entry["k"] for entry in shown], y, color=color, label=name, **style)
        count_axis(axes, zero=True)
        if axes.get_lines():
            axes.set_yscale("log")
        else:
            message(axes, "no bound: the clients mix for none of these k")
        format_axes(axes, f"terms of the corollary after {experiment.rounds} rounds, constants 1", "k", "")

    return Report(values, draw, _SIZE, _rates_tables(values, found), notes)


def _initial_gap(problem: Problem) -> tuple[float, bool]:
    """F(x^0) - F*, and whether it is exact; otherwise F* is taken as 0, a lower bound of these losses."""
    start = problem.evaluate(problem.start)["train_loss"]
    if isinstance(problem, QuadraticProblem):
        return start - problem.evaluate(problem.optimum)["train_loss"], True
    return start, False


def _rates_tables(values: dict[str, Any], found: Constants) -> dict[str, Rows]:
    error, mean, seen = found.variance.standard_error, found.variance.mean, f"at {values['points']} models of the run"
    explained = {
        "smoothness": ("L", f"curvature of client {found.smoothness.client}, {seen}"),
        "sigma_squared": ("sigma^2", f"standard error {short(error)}; mean {short(mean)}"),
        "beta": ("beta", seen),
        "zeta": ("zeta", seen),
        "initial_gap": ("F(x^0) - F*", "exact" if values["initial_gap_is_exact"] else "at most: F* taken as 0"),
        "delta": ("delta", f"window P = {values['period']}"),
        "delta_max": ("delta_max", "largest p_i^t"),
    }

    def limits(row: dict[str, Any]) -> dict[str, Any]:
        allowed, rounds = row["rate_limits"] or {}, row["corollary_rounds"]
        return {
            "k": general(row["k"]),
            "rho_k": row["rho"],
            "eta_l eta_g up to": or_else(allowed.get("product"), "none"),
            "eta_l up to": or_else(allowed.get("local"), "none"),
            "from T": "never" if rounds is None else f"{rounds:.3g}",
        }

    def terms(row: dict[str, Any]) -> dict[str, Any]:
        return {"k": general(row["k"]), **{name: (row["bound"] or {}).get(key) for key, (name, _) in _TERMS.items()}}

    return {
        "constants": [{"constant": n, "value": values[key], "how": how} for key, (n, how) in explained.items()],
        "learning rates the theorem admits, and from which T on it admits the corollary's rates": [
            limits(row) for row in values["by_k"]
        ],
        f"the corollary's bound on the mean squared gradient after {values['rounds']} rounds, constants 1": [
            terms(row) for row in values["by_k"]
        ],
    }
