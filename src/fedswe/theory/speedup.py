"""Linear speed-up: how many rounds more clients and more local steps save, exactly, on noisy quadratics.

The remark after Corollary (x bar rate) is for everybody available and k = Θ(m): the bound is then of order 1/√(smT), so
s·m times fewer rounds reach the same accuracy. The corollary is for T so large that its rates are admitted
(``fedswe.theory.rates.corollary_rounds``). Here T is measured, for any p, at the corollary's rates for this T whether
they are admitted or not, by the exact moments of ``fedswe.theory.moments``; the curvature and E‖x^0 - x*‖² are 1.
"""

from __future__ import annotations

import math

from fedswe.errors import require
from fedswe.theory.moments import NoisyQuadratics, mean_errors
from fedswe.theory.rates import corollary_rates

MOST_ROUNDS = 2**40


def mean_gradient(rounds: int, *, clients: int, steps: int, p: float, k: float, sigma: float, spread: float) -> float:
    """(1/T) Σ_{t<T} E‖∇F(x̄^t)‖² at the rates of Corollary (x bar rate) for T = ``rounds``; δ = p, P = 1, L = 1.

    ``spread`` is the standard deviation of the clients' optima, at most √m.
    """
    require(spread**2 <= clients, f"spread {spread} must be at most the square root of {clients} clients")
    rates = corollary_rates(rounds=rounds, steps=steps, smoothness=1.0, delta=p, clients=clients)
    start = math.sqrt(1.0 - spread**2 / clients)  # the mean of the optima has the variance spread²/m
    problem = NoisyQuadratics(clients, p, k, rates.local_lr, rates.lr, steps, sigma=sigma, spread=spread, start=start)
    return mean_errors(problem, rounds).mean_gradient


def rounds_needed(target: float, *, clients: int, steps: int, p: float, k: float, sigma: float, spread: float) -> float:
    """The T from which ``mean_gradient`` is at most ``target``, by bisection; infinite beyond 2^40 rounds."""
    require(target > 0.0, f"target {target} must be positive")

    def reached(rounds: int) -> bool:
        value = mean_gradient(rounds, clients=clients, steps=steps, p=p, k=k, sigma=sigma, spread=spread)
        return value <= target  # not so where the rates diverge

    enough = 1
    while not reached(enough):
        enough *= 2
        if enough > MOST_ROUNDS:
            return math.inf
    short = enough // 2
    while enough - short > 1:
        middle = (short + enough) // 2
        short, enough = (short, middle) if reached(middle) else (middle, enough)
    return enough
