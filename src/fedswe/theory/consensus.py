"""How far the models are apart: the proposition on client distance, the consensus lemma and the corollary on x_i - x̄.

Notation of ``fedswe.theory.rates``: η = η_l η_g, M = m + k, F̃ = (m/M)F, z_i the auxiliary models, z̄ their mean over
all M clients. All bounds are on means over the rounds t = 0..T-1 and hold for every T; ``gradient_norm_squared`` is
the mean of E‖∇F̃(z̄^t)‖², i.e. (m/M)² times that of ∇F. They need the learning rates of ``theorem_rate_limits``.
Where a proof of the paper has a gap the constants are those of the proof in docs/errata.md, entries 12 to 17.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedswe.theory.rates import ConvergenceBound, check_availability, check_positive, check_problem, theorem_bound
from fedswe.theory.staleness import paper_second_moment_bound, safe_second_moment_bound

NOISE, GRADIENT = 17.0, 146.0  # of the consensus lemma
NOISE_PRINTED, GRADIENT_PRINTED = 32.0, 24.0


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


def client_consensus_bound(
    *,
    local_lr: float,
    lr: float,
    steps: int,
    smoothness: float,
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
    """Corollary (x consensus without pseudo) with constants: bounds (1/MT) Σ_t Σ_{i≤M} E‖x_i - x̄‖².

    X(I-J) = (X-Z)(I-J) + Z(I-J), hence 2·``approximation_bound`` + 2·``consensus_bound``, the former with the latter
    inside. The printed line bounds a squared distance by squared gradients: 1/L² is missing there (errata, entry 17).
    """
    apart = consensus_bound(
        local_lr=local_lr,
        lr=lr,
        steps=steps,
        sigma_squared=sigma_squared,
        beta=beta,
        zeta=zeta,
        delta=delta,
        period=period,
        clients=clients,
        k=k,
        rho=rho,
        gradient_norm_squared=gradient_norm_squared,
    )
    stale = approximation_bound(
        local_lr=local_lr,
        lr=lr,
        steps=steps,
        smoothness=smoothness,
        beta=beta,
        zeta=zeta,
        delta=delta,
        period=period,
        clients=clients,
        k=k,
        gradient_norm_squared=gradient_norm_squared,
        consensus=1.0,
    )
    weight = 2.0 * (1.0 + stale.consensus)
    return ErrorTerms(
        noise=weight * apart.noise,
        gradient=weight * apart.gradient + 2.0 * stale.gradient,
        heterogeneity=weight * apart.heterogeneity + 2.0 * stale.heterogeneity,
    )


def client_consensus_order(
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
    """Corollary (x consensus without pseudo), constants 1: the terms of Theorem (z bar rate) over L².

    The mean of ‖x_i - x̄‖² has the order of the mean of ‖∇F(z̄)‖²; the print leaves out the L² that the units need.
    """
    terms = theorem_bound(
        local_lr=local_lr,
        lr=lr,
        steps=steps,
        rounds=rounds,
        initial_gap=initial_gap,
        smoothness=smoothness,
        sigma_squared=sigma_squared,
        zeta=zeta,
        delta=delta,
        delta_max=delta_max,
        period=period,
        clients=clients,
        k=k,
        rho=rho,
    )
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
