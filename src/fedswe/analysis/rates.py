"""Which learning rates does the theorem allow, and how do its terms depend on k?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from fedswe.analysis.constants import Constants, measure, models_of_a_run
from fedswe.analysis.mixing import mixing_of
from fedswe.analysis.report import Report, TextTable, general, or_else, short, table
from fedswe.analysis.scenario import Scenario
from fedswe.errors import require
from fedswe.experiment.experiment import assemble
from fedswe.plotting import BLUE, GREEN, ORANGE, RED, count_axis, format_axes, message
from fedswe.theory.assumption import delta_max, window_delta
from fedswe.theory.rates import (
    corollary_bound,
    corollary_rates,
    corollary_rounds,
    theorem_rate_limits,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SIZE = (4.6, 3.0)
_MIXED = 1 - 1e-9  # rho_k above this is 1 up to rounding
_POINTS = {"marker": "o", "markersize": 4, "linewidth": 1.1}
_TERMS: dict[str, tuple[str, dict[str, Any]]] = {  # of the corollary's bound: title and line style
    "initial_gap": ("initial gap", {"color": BLUE, **_POINTS}),
    "noise": ("noise", {"color": ORANGE, **_POINTS}),
    "mixing": ("mixing", {"color": GREEN, **_POINTS}),
    "total": ("sum", {"color": RED, "linewidth": 5, "alpha": 0.3}),
}


def rates_report(
    scenario: Scenario, ks: Sequence[float], period: int | None, draws: int, along: int, points: int
) -> Report:  # fmt: skip
    """The task's constants along the first `along` rounds of the run, then limits and bounds for every k."""
    experiment = scenario.experiment
    window = scenario.window(period)
    delta, largest = window_delta(scenario.table, window), delta_max(scenario.table)
    mixing = mixing_of(scenario, ks, window, draws, 0.95)
    require(along >= 0, f"--along {along} must be 0 (the start only) or more rounds")
    engine = assemble(replace(experiment, dtype="float64"))
    constants = measure(
        engine.problem, models_of_a_run(engine, min(along, experiment.rounds), points), experiment.local.batch_size
    )
    smoothness, variance = constants.smoothness, constants.variance
    choice = corollary_rates(
        rounds=experiment.rounds,
        steps=experiment.local.steps,
        smoothness=smoothness.value,
        delta=delta,
        clients=scenario.m,
    )
    local_lr, lr = experiment.local.lr_at(0), experiment.algorithm.lr
    values: dict[str, Any] = {
        "period": window,
        "delta": delta,
        "delta_max": largest,
        "smoothness": smoothness.value,
        "sigma_squared": variance.value,
        "sigma_squared_standard_error": variance.standard_error,
        "beta": constants.dissimilarity.beta,
        "zeta": constants.dissimilarity.zeta,
        "initial_gap": constants.initial_gap,
        "initial_gap_is_exact": constants.gap_is_exact,
        "points": constants.points,
        "rounds": experiment.rounds,
        "corollary_rates": asdict(choice),
        "rates_of_the_run": {"local_lr": local_lr, "lr": lr},
        "by_k": [_of_k(scenario, f.k, f.rho, delta, largest, window, constants) for f in mixing],
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
        for key, (name, style) in _TERMS.items():
            y = [entry["bound"][key] for entry in shown]
            if any(y):  # a logarithmic axis cannot show zeros
                axes.plot([entry["k"] for entry in shown], y, label=name, **style)
        count_axis(axes, zero=True)
        if axes.get_lines():
            axes.set_yscale("log")
        else:
            message(axes, "no bound: the clients mix for none of these k")
        format_axes(axes, f"terms of the corollary after {experiment.rounds} rounds, constants 1", "k", "")

    return Report(values, draw, _SIZE, _tables(values, constants), notes)


def _of_k(
    scenario: Scenario, k: float, rho: float, delta: float, largest: float, window: int, constants: Constants
) -> dict[str, Any]:  # fmt: skip
    """What the theorem and the corollary say for one k; None where rho_k is 1."""
    if rho >= _MIXED:
        return {"k": k, "rho": rho, "rate_limits": None, "corollary_rounds": None, "bound": None}
    mixing: dict[str, Any] = {"rho": rho, "delta": delta, "period": window, "clients": scenario.m, "k": k}
    steps, smoothness = scenario.experiment.local.steps, constants.smoothness.value
    beta = constants.dissimilarity.beta
    bound = corollary_bound(
        **mixing,
        steps=steps,
        rounds=scenario.experiment.rounds,
        initial_gap=constants.initial_gap,
        smoothness=smoothness,
        sigma_squared=constants.variance.value,
        zeta=constants.dissimilarity.zeta,
        delta_max=largest,
    )
    return {
        "k": k,
        "rho": rho,
        "rate_limits": asdict(theorem_rate_limits(**mixing, steps=steps, smoothness=smoothness, beta=beta)),
        "corollary_rounds": corollary_rounds(**mixing, steps=steps, beta=beta),
        "bound": {**asdict(bound), "total": bound.total},
    }


def _tables(values: dict[str, Any], constants: Constants) -> list[TextTable]:
    variance, seen = constants.variance, f"at {constants.points} models of the run"
    explained = {
        "smoothness": ("L", f"curvature of client {constants.smoothness.client}, {seen}"),
        "sigma_squared": ("sigma^2", f"standard error {short(variance.standard_error)}; mean {short(variance.mean)}"),
        "beta": ("beta", seen),
        "zeta": ("zeta", seen),
        "initial_gap": ("F(x^0) - F*", "exact" if constants.gap_is_exact else "at most: F* taken as 0"),
        "delta": ("delta", f"window P = {values['period']}"),
        "delta_max": ("delta_max", "largest p_i^t"),
    }
    return [
        table(
            "constants",
            [{"constant": name, "value": values[key], "how": how} for key, (name, how) in explained.items()],
            ["constant", "value", "how"],
        ),
        table(
            "learning rates the theorem admits, and from which T on it admits the corollary's rates",
            values["by_k"],
            [
                ("k", "k", general),
                ("rho_k", "rho"),
                ("eta_l eta_g up to", "rate_limits.product", or_else("none")),
                ("eta_l up to", "rate_limits.local", or_else("none")),
                ("from T", "corollary_rounds", or_else("never", lambda rounds: f"{rounds:.3g}")),
            ],
        ),
        table(
            f"the corollary's bound on the mean squared gradient after {values['rounds']} rounds, constants 1",
            values["by_k"],
            [("k", "k", general), *((title, f"bound.{key}") for key, (title, _) in _TERMS.items())],
        ),
    ]
