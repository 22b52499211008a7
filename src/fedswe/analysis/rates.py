"""Which learning rates does the theorem allow, and what do its terms say about k?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedswe.analysis.constants import Constants, measure, models_of_a_run
from fedswe.analysis.drawing import BLUE, GREEN, ORANGE, RED, count_axis, dress
from fedswe.analysis.mixing import mixing_of
from fedswe.analysis.report import Report, Sheet, short
from fedswe.analysis.subject import Subject
from fedswe.errors import require
from fedswe.experiment.experiment import assemble
from fedswe.theory.assumption import delta_max, window_delta
from fedswe.theory.rates import (
    ConvergenceBound,
    RateLimits,
    corollary_bound,
    corollary_rates,
    corollary_rounds,
    theorem_rate_limits,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SIZE = (6.4, 4.2)
_MIXED = 1 - 1e-9  # rho_k above this is 1 up to rounding


@dataclass(frozen=True)
class Entry:
    """What the theorem and the corollary say for one k; nothing where the clients never mix."""

    k: float
    rho: float
    limits: RateLimits | None = None
    rounds: int | None = None  # from which the corollary's rates are admitted
    bound: ConvergenceBound | None = None  # of the corollary after the run's rounds


def rates_report(
    subject: Subject, ks: Sequence[float], period: int | None, draws: int, along: int, points: int
) -> Report:  # fmt: skip
    """The task's constants along the first `along` rounds of the run, then limits and bounds for every k."""
    experiment = subject.experiment
    window = subject.window(period)
    table = subject.trace.astype(np.float64) if subject.knows == "trace" else subject.prob
    delta = window_delta(table, window)
    mixing = mixing_of(subject, ks, window, draws, 0.95)
    require(along >= 0, f"--along {along} must be 0 (the start only) or more rounds")
    engine = assemble(replace(experiment, dtype="float64"))
    constants = measure(
        engine.problem, models_of_a_run(engine, min(along, experiment.rounds), points), experiment.local.batch_size
    )
    largest = delta_max(table)
    entries = [_entry(subject, f.k, f.rho, delta, largest, window, constants) for f in mixing]
    choice = corollary_rates(
        rounds=experiment.rounds,
        steps=experiment.local.steps,
        smoothness=constants.smoothness.value,
        delta=delta,
        clients=subject.m,
    )
    local_lr, lr = experiment.local.lr_at(0), experiment.algorithm.lr
    values: dict[str, Any] = {
        "period": window,
        "delta": delta,
        "delta_max": largest,
        "smoothness": constants.smoothness.value,
        "sigma_squared": constants.variance.value,
        "sigma_squared_standard_error": constants.variance.standard_error,
        "beta": constants.dissimilarity.beta,
        "zeta": constants.dissimilarity.zeta,
        "initial_gap": constants.initial_gap,
        "initial_gap_is_exact": constants.gap_is_exact,
        "points": constants.points,
        "rounds": experiment.rounds,
        "corollary_rates": asdict(choice),
        "rates_of_the_run": {"local_lr": local_lr, "lr": lr},
        "by_k": [_values(e) for e in entries],
    }
    notes = [
        f"rates of the run: eta_l = {short(local_lr)}, eta_l eta_g = {short(local_lr * lr)}; the corollary's choice "
        f"for T = {experiment.rounds}: eta_l = {short(choice.local_lr)}, eta_g = {short(choice.lr)}",
        "bounds hold up to a constant the paper leaves open, here 1: compare k with one another, not with a loss",
        "L, sigma^2, beta, zeta are lower bounds: the largest values seen at the points",
    ]
    if subject.knows == "trace":
        notes.append("delta and rho_k are estimates from the trace")
    if subject.knows == "chains":
        notes.append("the theorem assumes independent rounds: with markov availability it is a comparison, not a bound")

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        shown = [e for e in entries if e.bound is not None]
        k = [e.k for e in shown]
        total = [e.bound.total for e in shown if e.bound is not None]
        axes.plot(k, total, color=RED, linewidth=5, alpha=0.3, label="sum")
        for name, color in {"initial gap": BLUE, "noise": ORANGE, "mixing": GREEN}.items():
            y = [getattr(e.bound, name.replace(" ", "_")) for e in shown]
            if any(y):  # zeros have no place on a logarithmic axis
                axes.plot(k, y, "o-", color=color, markersize=4, linewidth=1.1, label=name)
        count_axis(axes, zero=True)
        if any(total):
            axes.set_yscale("log")
        else:
            axes.text(0.5, 0.5, "no bound: for no k of these do the clients mix", ha="center", transform=axes.transAxes)
        dress(axes, f"terms of the corollary after {experiment.rounds} rounds, constants 1", "k", "")

    return Report(values, draw, _SIZE, _sheets(subject, constants, entries, delta, largest, window), notes)


def _entry(
    subject: Subject, k: float, rho: float, delta: float, largest: float, window: int, constants: Constants
) -> Entry:  # fmt: skip
    if rho >= _MIXED:
        return Entry(k, rho)
    mixing: dict[str, Any] = {"rho": rho, "delta": delta, "period": window, "clients": subject.m, "k": k}
    steps, smoothness = subject.experiment.local.steps, constants.smoothness.value
    beta = constants.dissimilarity.beta
    return Entry(
        k,
        rho,
        theorem_rate_limits(**mixing, steps=steps, smoothness=smoothness, beta=beta),
        corollary_rounds(**mixing, steps=steps, beta=beta),
        corollary_bound(
            **mixing,
            steps=steps,
            rounds=subject.experiment.rounds,
            initial_gap=constants.initial_gap,
            smoothness=smoothness,
            sigma_squared=constants.variance.value,
            zeta=constants.dissimilarity.zeta,
            delta_max=largest,
        ),
    )


def _values(entry: Entry) -> dict[str, Any]:
    bound = None if entry.bound is None else {**asdict(entry.bound), "total": entry.bound.total}
    limits = None if entry.limits is None else asdict(entry.limits)
    return {"k": entry.k, "rho": entry.rho, "rate_limits": limits, "corollary_rounds": entry.rounds, "bound": bound}


def _sheets(
    subject: Subject, constants: Constants, entries: Sequence[Entry], delta: float, largest: float, window: int
) -> list[Sheet]:
    variance, gap = constants.variance, "exact" if constants.gap_is_exact else "at most: F* taken as 0"
    seen = f"at {constants.points} models of the run"
    measured = Sheet(
        "constants",
        ["constant", "value", "how"],
        [
            ["L", short(constants.smoothness.value), f"curvature of client {constants.smoothness.client}, {seen}"],
            [
                "sigma^2",
                short(variance.value),
                f"standard error {short(variance.standard_error)}; mean {short(variance.mean)}",
            ],
            ["beta", short(constants.dissimilarity.beta), seen],
            ["zeta", short(constants.dissimilarity.zeta), seen],
            ["F(x^0) - F*", short(constants.initial_gap), gap],
            ["delta", short(delta), f"window P = {window}"],
            ["delta_max", short(largest), "largest p_i^t"],
        ],
    )
    admitted = Sheet(
        "learning rates the theorem admits, and from which T on the corollary's are",
        ["k", "rho_k", "eta_l eta_g up to", "eta_l up to", "from T"],
        [_admitted(e) for e in entries],
    )
    terms = Sheet(
        f"the corollary's bound on the mean squared gradient after {subject.experiment.rounds} rounds, constants 1",
        ["k", "initial gap", "noise", "mixing", "sum"],
        [_terms(e) for e in entries],
    )
    return [measured, admitted, terms]


def _admitted(entry: Entry) -> list[str]:
    head = [f"{entry.k:g}", short(entry.rho)]
    if entry.limits is None or entry.rounds is None:
        return [*head, "none", "none", "never"]
    return [*head, short(entry.limits.product), short(entry.limits.local), f"{entry.rounds:.3g}"]


def _terms(entry: Entry) -> list[str]:
    b = entry.bound
    values = [None] * 4 if b is None else [b.initial_gap, b.noise, b.mixing, b.total]
    return [f"{entry.k:g}", *map(short, values)]
