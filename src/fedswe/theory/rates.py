"""The learning rates that the theorem admits, and the bound of the corollary, term by term.

``local_lr`` is η_l, ``lr`` η_g, ``steps`` s, ``smoothness`` L, ``period`` P_δ, ``clients`` m, and M = m + k.
``rho`` is the number ρ_k of ``fedswe.theory.mixing``, δ and δ_max are those of ``fedswe.theory.assumption``, and
L, σ², β, ζ those of Assumptions 2-4.

The conditions carry the paper's constants. The theorem and the corollary hold up to a constant that the paper
leaves open (its ≲); here every such constant is 1. Their values compare choices of k, rates and availabilities
with one another; they are not guarantees in numbers.
"""

import math
from dataclasses import dataclass

from fedswe.errors import require
from fedswe.theory.assumption import check_delta, check_k

ROUNDING = 1e-12


@dataclass(frozen=True)
class RateLimits:
    """The largest learning rates a condition admits."""

    product: float  # of η_l η_g
    local: float  # of η_l


@dataclass(frozen=True)
class Rates:
    """A choice of learning rates."""

    local_lr: float
    lr: float


@dataclass(frozen=True)
class ConvergenceBound:
    """The terms that bound the mean squared gradient norm over T rounds, constants 1."""

    initial_gap: float  # what the distance of the start from the minimum costs
    noise: float  # σ², with linear speedup in s and m
    mixing: float  # σ² + ζ², with 1/(1-ρ_k)²

    @property
    def total(self) -> float:
        """The bound."""
        return self.initial_gap + self.noise + self.mixing


def theorem_rate_limits(
    *, rho: float, delta: float, period: int, clients: int, k: float, steps: int, smoothness: float, beta: float
) -> RateLimits:
    """Eq. (lr condition main text), assumed by Theorem (z bar rate) and Corollary (x bar rate):

    η_l η_g ≤ δ(1-ρ_k)√m / (96 s L √(P M((P-1)²δ²+1)(β²+1))),   η_l ≤ δ / (216 s L √(((P-1)²δ²+1)(β²+1))).

    They imply those of the descent lemma, η_l η_g ≤ 1/(8sL), and of the perturbation lemma, η_l ≤ 1/(4sL).
    """
    _check(rho, delta, 1.0, k, period=period, clients=clients, steps=steps, smoothness=smoothness, beta=beta)
    spread = ((period - 1) ** 2 * delta**2 + 1.0) * (beta**2 + 1.0)
    reach = 96.0 * steps * smoothness * math.sqrt(period * (clients + k) * spread)
    local = delta / (216.0 * steps * smoothness * math.sqrt(spread))
    return RateLimits(delta * (1.0 - rho) * math.sqrt(clients) / reach, local)


def corollary_rates(*, rounds: int, steps: int, smoothness: float, delta: float, clients: int) -> Rates:
    """The choice of Corollary (x bar rate): η_l = 1/(√T s L), η_g = √(s δ m)."""
    _check(delta=delta, rounds=rounds, steps=steps, smoothness=smoothness, clients=clients)
    return Rates(local_lr=1.0 / (math.sqrt(rounds) * steps * smoothness), lr=math.sqrt(steps * delta * clients))


def corollary_rounds(*, rho: float, delta: float, period: int, clients: int, k: float, steps: int, beta: float) -> int:
    """The smallest T from which the corollary's rates satisfy ``theorem_rate_limits``; L cancels."""
    limits = theorem_rate_limits(
        rho=rho, delta=delta, period=period, clients=clients, k=k, steps=steps, smoothness=1.0, beta=beta
    )
    by_product = delta * clients / (steps * limits.product**2)
    needed = max(1.0, by_product, 1.0 / (steps * limits.local) ** 2)
    return math.ceil(needed * (1.0 - ROUNDING))  # a whole number that rounding has lifted is not a round more


def corollary_bound(
    *, steps: int, rounds: int, initial_gap: float, smoothness: float, sigma_squared: float, zeta: float, delta: float,
    delta_max: float, period: int, clients: int, k: float, rho: float,
) -> ConvergenceBound:  # fmt: skip
    """Corollary (x bar rate), constants 1: the theorem at ``corollary_rates``. With E = (P-1)²δ² + 1:

    (M/m) L·gap/√(sδmT) + δ_max σ² E/(δ^{3/2}√(smT)) + (M/m)(s m P/(δT))(σ²+ζ²) E [1 + 1/(1-ρ_k)²].

    The printed third term has smP/T: inserting the rates into the theorem gives smP/(δT) (see the errata).
    """
    _check(
        rho, delta, delta_max, k, period=period, clients=clients, steps=steps, smoothness=smoothness, rounds=rounds,
        sigma_squared=sigma_squared, zeta=zeta, initial_gap=initial_gap,
    )  # fmt: skip
    inflation, absence = (clients + k) / clients, (period - 1) ** 2 * delta**2 + 1.0
    drift = steps * clients * period / (delta * rounds) * (sigma_squared + zeta**2)
    return ConvergenceBound(
        initial_gap=inflation * smoothness * initial_gap / math.sqrt(steps * delta * clients * rounds),
        noise=delta_max * sigma_squared * absence / (delta**1.5 * math.sqrt(steps * clients * rounds)),
        mixing=inflation * drift * absence * (1.0 + 1.0 / (1.0 - rho) ** 2),
    )


def _check(rho: float = 0.0, delta: float = 1.0, delta_max: float = 1.0, k: float = 0.0, **others: float) -> None:
    """Refuse an availability that the analysis does not cover, and constants that no problem or run has."""
    require(0.0 <= rho < 1.0, f"rho {rho} must lie in [0, 1): at 1 some window does not mix all clients, raise k")
    check_delta(delta)
    require(delta <= delta_max <= 1.0, f"delta_max {delta_max} must lie between delta = {delta} and 1")
    check_k(k)
    for name, value in others.items():
        least = 1 if name in ("steps", "rounds", "period", "clients") else 0
        require(math.isfinite(value) and value >= least, f"{name} = {value} must be a number, at least {least}")
        require(value > 0.0 or name != "smoothness", "smoothness = 0 must be positive")
