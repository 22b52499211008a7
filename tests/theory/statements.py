"""Statements of the analysis that no command evaluates, term by term, for the tests and for the errata's.

The theorem, the descent lemma, the proposition on client distance, the consensus lemma and the corollary on x_i - x̄.
Notation of ``fedswe.theory.rates``: η = η_l η_g, M = m + k, F̃ = (m/M)F, e_i = t - τ_i(t) the echo of client i, z_i
its auxiliary model and z̄ the mean of these over all M regular and virtual clients. The bounds on distances are on
means over the rounds t = 0..T-1 and hold for every T; ``gradient_norm_squared`` is the mean of E‖∇F̃(z̄^t)‖², i.e.
(m/M)² times that of ∇F. They need the learning rates of ``theorem_rate_limits``. Where a proof of the paper has a
gap the constants are those of the proof in docs/errata.md, entries 12 to 17.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedswe.errors import require
from fedswe.theory.assumption import check_k
from fedswe.theory.rates import ConvergenceBound, check_availability, check_positive, check_problem, check_run
from fedswe.theory.staleness import safe_second_moment_bound
from tests.theory.definitions import paper_second_moment_bound

NOISE, GRADIENT = 17.0, 146.0  # of the consensus lemma
NOISE_PRINTED, GRADIENT_PRINTED = 32.0, 24.0


def descent_product_limit(*, steps: int, smoothness: float) -> float:
    """The condition of the descent lemma: η_l η_g ≤ 1/(8sL)."""
    check_problem(steps=steps, smoothness=smoothness)
    return 1.0 / (8.0 * steps * smoothness)


def perturbation_local_limit(*, steps: int, smoothness: float) -> float:
    """The condition of the multi-step perturbation lemma, stated in its proof: η_l ≤ 1/(4sL)."""
    check_problem(steps=steps, smoothness=smoothness)
    return 1.0 / (4.0 * steps * smoothness)


def theorem_bound(
    *,
    local_lr: float,
    lr: float,
    steps: int,
    rounds: int,
    initial_gap: float,
    smoothness: float,
    sigma_squared: float,
    zeta: float,
    delta: float,
    delta_max: float,
    period: int,
    clients: int,
    k: float,
    rho: float,
) -> ConvergenceBound:
    """Theorem (z bar rate), constants 1: bounds (1/T)Σ_t E‖∇F(z̄^t)‖². ``initial_gap`` is F(z̄^0) - F*. η = η_l η_g:

    (M/m)·gap/(ηsT) + (δ_max η L σ²/m)[(P-1)² + 1/δ²] + (M/m) η²s²L² P (σ²+ζ²)[(P-1)² + 1/δ²][1 + 1/(1-ρ_k)²].
    """
    check_availability(rho, delta, period, clients, k, delta_max)
    check_problem(steps=steps, smoothness=smoothness, sigma_squared=sigma_squared, zeta=zeta)
    check_positive(local_lr=local_lr, lr=lr)
    check_run(rounds, initial_gap)
    product, inflation = local_lr * lr, (clients + k) / clients
    absence = (period - 1) ** 2 + 1.0 / delta**2
    drift = (product * steps * smoothness) ** 2 * period * (sigma_squared + zeta**2)
    return ConvergenceBound(
        initial_gap=inflation * initial_gap / (product * steps * rounds),
        noise=delta_max * product * smoothness * sigma_squared / clients * absence,
        mixing=inflation * drift * absence * (1.0 + 1.0 / (1.0 - rho) ** 2),
    )


@dataclass(frozen=True)
class DescentTerms:
    """The right-hand side of the descent lemma, which bounds E[F̃(z̄^{t+1}) - F̃(z̄^t) | F^t]."""

    gradient: float  # the descent itself, ≤ 0
    noise: float  # of the stochastic gradients
    local_drift: float  # of several local steps, echoed
    approximation: float  # ‖x_i - z_i‖²
    consensus: float  # ‖z_i - z̄‖²

    @property
    def total(self) -> float:
        """The bound."""
        return self.gradient + self.noise + self.local_drift + self.approximation + self.consensus


def descent_terms(
    *,
    local_lr: float,
    lr: float,
    steps: int,
    k: float,
    smoothness: float,
    sigma_squared: float,
    delta_max: float,
    gradient_norm_squared: float,
    staleness: npt.ArrayLike,
    client_gradient_norms_squared: npt.ArrayLike,
    approximation_errors: npt.ArrayLike,
    consensus_errors: npt.ArrayLike,
) -> DescentTerms:
    """Lemma (descent lemma), for η = η_l η_g ≤ 1/(8sL) and η_l ≤ 1/(4sL):

    -(ηs/3)‖∇F̃(z̄)‖² + 2ηsLσ²(ηδ_max + 9mη_l²sL)/M²·Σ e_i² + 65η_gη_l³s³L²/M·Σ e_i²‖∇F_i(x_i)‖²
    + 4ηsL²/M·Σ‖x_i - z_i‖² + ηsL²/(2M)·Σ‖z_i - z̄‖².

    The arrays [m] hold e_i, ‖∇F_i(x_i)‖², ‖x_i - z_i‖² and ‖z_i - z̄‖² of the m regular clients;
    ``gradient_norm_squared`` is ‖∇F̃(z̄)‖², i.e. (m/M)²‖∇F(z̄)‖².
    """
    check_problem(steps=steps, smoothness=smoothness, sigma_squared=sigma_squared)
    check_positive(local_lr=local_lr, lr=lr)
    check_k(k)
    require(0.0 < delta_max <= 1.0, f"delta_max {delta_max} must lie in (0, 1]")
    echo, gradient, approximation, consensus = (
        np.asarray(values, dtype=np.float64)
        for values in (staleness, client_gradient_norms_squared, approximation_errors, consensus_errors)
    )
    require(
        echo.ndim == 1 and echo.shape == gradient.shape == approximation.shape == consensus.shape,
        "staleness, client gradients, approximation and consensus errors each need one entry per client",
    )
    require(bool((echo >= 1.0).all()), "staleness t - τ_i(t) is at least 1: count from the round before")
    clients, product = len(echo), local_lr * lr
    total, visible = clients + k, product * steps * smoothness
    noise = product * delta_max + 9.0 * clients * local_lr**2 * steps * smoothness
    drift = 65.0 * lr * local_lr**3 * steps**3 * smoothness**2
    return DescentTerms(
        gradient=-product * steps / 3.0 * gradient_norm_squared,
        noise=2.0 * visible * sigma_squared * noise / total**2 * float((echo**2).sum()),
        local_drift=drift / total * float((echo**2 * gradient).sum()),
        approximation=4.0 * visible * smoothness / total * float(approximation.sum()),
        consensus=visible * smoothness / (2.0 * total) * float(consensus.sum()),
    )


@dataclass(frozen=True)
class ErrorTerms:
    """The terms of a bound on the mean squared distance of models."""

    noise: float  # σ²
    gradient: float  # ‖∇F̃(z̄)‖²
    heterogeneity: float  # ζ²
    consensus: float = 0.0  # ‖z_i - z̄‖², where it is given and not bounded

    @property
    def total(self) -> float:
        """The bound."""
        return self.noise + self.gradient + self.heterogeneity + self.consensus


def approximation_bound(
    *,
    local_lr: float,
    lr: float,
    steps: int,
    smoothness: float,
    beta: float,
    zeta: float,
    delta: float,
    period: int,
    clients: int,
    k: float,
    gradient_norm_squared: float,
    consensus: float,
) -> ErrorTerms:
    """Proposition (client dis), eq. (approx error), as printed: bounds (1/MT) Σ_t Σ_{i≤m} E‖x_i - z_i‖² by

    3η²s²V [ (M/m)(β²+1)·‖∇F̃(z̄)‖² + (m/M)ζ² + L²·consensus ],   V = [((P-1)δ+1)² + (P-1)δ² + 1]/δ².

    ``consensus`` is the mean of (1/M) Σ_{i≤m} E‖z_i - z̄‖². The paper asks for no learning rate, but without one the
    inequality is false. With those of ``theorem_rate_limits`` it holds (errata, entry 12).
    """
    check_availability(0.0, delta, period, clients, k)
    check_problem(steps=steps, smoothness=smoothness, beta=beta, zeta=zeta)
    check_positive(local_lr=local_lr, lr=lr)
    total = clients + k
    scale = 3.0 * (local_lr * lr * steps) ** 2 * paper_second_moment_bound(period, delta)
    return ErrorTerms(
        noise=0.0,
        gradient=scale * total / clients * (beta**2 + 1.0) * gradient_norm_squared,
        heterogeneity=scale * clients / total * zeta**2,
        consensus=scale * smoothness**2 * consensus,
    )


def consensus_bound(
    *,
    local_lr: float,
    lr: float,
    steps: int,
    sigma_squared: float,
    beta: float,
    zeta: float,
    delta: float,
    period: int,
    clients: int,
    k: float,
    rho: float,
    gradient_norm_squared: float,
) -> ErrorTerms:
    """Lemma (consensus z) with a proof: bounds (1/MT) Σ_t Σ_{i≤M} E‖z_i - z̄‖² by η²/(1-ρ_k)² times

    17 s P V' (m/M)σ² + 146 s² P² [ (M/m)(β²+1)·‖∇F̃(z̄)‖² + (m/M)ζ² ],   V' = ``safe_second_moment_bound``.

    Deviates from the print (``consensus_bound_printed``): V' holds in every round, the printed V when P divides t; 17
    and 146 are of the repaired proof; and P² stands for P·V. For P ≥ 6 or δ ≤ 0.5 the printed terms of gradient and
    heterogeneity are the larger ones. The printed noise term is larger for P = 1, and smaller for long windows: 0.91
    times this one at P = 4, δ = 0.5, 0.52 times at P = 100, δ = 0.1, and never below 32/68 of it.
    """
    per_round = _consensus_scale(local_lr, lr, steps, sigma_squared, beta, zeta, delta, period, clients, k, rho)
    total, rough = clients + k, steps * period * per_round
    drift = GRADIENT * rough * steps * period
    return ErrorTerms(
        noise=NOISE * rough * safe_second_moment_bound(period, delta) * clients / total * sigma_squared,
        gradient=drift * total / clients * (beta**2 + 1.0) * gradient_norm_squared,
        heterogeneity=drift * clients / total * zeta**2,
    )


def consensus_bound_printed(
    *,
    local_lr: float,
    lr: float,
    steps: int,
    sigma_squared: float,
    beta: float,
    zeta: float,
    delta: float,
    period: int,
    clients: int,
    k: float,
    rho: float,
    gradient_norm_squared: float,
) -> ErrorTerms:
    """Lemma (consensus z) as printed: η²/(1-ρ_k)² times

    32 s P V (m/M)σ² + 24 s² P V [ (M/m)(β²+1)·‖∇F̃(z̄)‖² + (m/M)ζ² ],   V as in ``approximation_bound``.
    """
    per_round = _consensus_scale(local_lr, lr, steps, sigma_squared, beta, zeta, delta, period, clients, k, rho)
    total, rough = clients + k, steps * period * per_round * paper_second_moment_bound(period, delta)
    drift = GRADIENT_PRINTED * rough * steps
    return ErrorTerms(
        noise=NOISE_PRINTED * rough * clients / total * sigma_squared,
        gradient=drift * total / clients * (beta**2 + 1.0) * gradient_norm_squared,
        heterogeneity=drift * clients / total * zeta**2,
    )


def client_consensus_bound(*, smoothness: float, sigma_squared: float, rho: float, **others: Any) -> ErrorTerms:
    """Corollary (x consensus without pseudo) with constants: bounds (1/MT) Σ_t Σ_{i≤M} E‖x_i - x̄‖².

    X(I-J) = (X-Z)(I-J) + Z(I-J), hence 2·``approximation_bound`` + 2·``consensus_bound``, the former with the latter
    inside. The printed line bounds a squared distance by squared gradients: 1/L² is missing there (errata, entry 17).
    """
    apart = consensus_bound(sigma_squared=sigma_squared, rho=rho, **others)
    stale = approximation_bound(smoothness=smoothness, consensus=1.0, **others)
    weight = 2.0 * (1.0 + stale.consensus)
    return ErrorTerms(
        noise=weight * apart.noise,
        gradient=weight * apart.gradient + 2.0 * stale.gradient,
        heterogeneity=weight * apart.heterogeneity + 2.0 * stale.heterogeneity,
    )


def client_consensus_order(*, smoothness: float, **others: Any) -> ConvergenceBound:
    """Corollary (x consensus without pseudo), constants 1: the terms of Theorem (z bar rate) over L².

    The mean of ‖x_i - x̄‖² has the order of the mean of ‖∇F(z̄)‖²; the print leaves out the L² that the units need.
    """
    terms = theorem_bound(smoothness=smoothness, **others)
    unit = smoothness**-2.0
    return ConvergenceBound(terms.initial_gap * unit, terms.noise * unit, terms.mixing * unit)


def _consensus_scale(
    local_lr: float,
    lr: float,
    steps: int,
    sigma_squared: float,
    beta: float,
    zeta: float,
    delta: float,
    period: int,
    clients: int,
    k: float,
    rho: float,
) -> float:
    """η²/(1-ρ_k)², for constants that make sense."""
    check_availability(rho, delta, period, clients, k)
    check_problem(steps=steps, smoothness=1.0, sigma_squared=sigma_squared, beta=beta, zeta=zeta)
    check_positive(local_lr=local_lr, lr=lr)
    return (local_lr * lr) ** 2 / (1.0 - rho) ** 2
