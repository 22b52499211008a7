"""Statements of the analysis that no command evaluates, term by term, for the tests and for the errata's.

The theorem, the descent lemma, the proposition on client distance, the consensus lemma and the corollary on x_i - x̄.
Notation of ``fedswe.theory.rates``: η = η_l η_g, M = m + k, F̃ = (m/M)F, e_i = t - τ_i(t) the echo of client i, z_i
its auxiliary model and z̄ the mean of these over all M regular and virtual clients. The bounds on distances are on
means over the rounds t = 0..T-1 and hold for every T; ``gradient`` is the mean of E‖∇F̃(z̄^t)‖², i.e. (m/M)² times that
of ∇F. They need the learning rates of ``theorem_rate_limits``. Where a proof of the paper has a gap the constants are
those of the proof in docs/errata.md, entries 12 to 17. Every bound has its terms and their sum, ``total``.
"""

from types import SimpleNamespace

import numpy as np

from fedswe.theory.staleness import moment_bounds
from tests.theory.definitions import paper_second_moment_bound

NOISE, GRADIENT = 17.0, 146.0  # of the consensus lemma
NOISE_PRINTED, GRADIENT_PRINTED = 32.0, 24.0


def bound_of(**terms):
    return SimpleNamespace(**terms, total=sum(terms.values()))


def theorem_bound(
    *,
    local_lr,
    lr,
    steps,
    rounds,
    initial_gap,
    smoothness,
    sigma_squared,
    zeta,
    delta,
    delta_max,
    period,
    clients,
    k,
    rho,
):
    """Theorem (z bar rate), constants 1: bounds (1/T)Σ_t E‖∇F(z̄^t)‖². ``initial_gap`` is F(z̄^0) - F*. η = η_l η_g:

    (M/m)·gap/(ηsT) + (δ_max η L σ²/m)[(P-1)² + 1/δ²] + (M/m) η²s²L² P (σ²+ζ²)[(P-1)² + 1/δ²][1 + 1/(1-ρ_k)²].
    """
    product, inflation = local_lr * lr, (clients + k) / clients
    absence = (period - 1) ** 2 + 1 / delta**2
    drift = (product * steps * smoothness) ** 2 * period * (sigma_squared + zeta**2)
    return bound_of(
        initial_gap=inflation * initial_gap / (product * steps * rounds),
        noise=delta_max * product * smoothness * sigma_squared / clients * absence,
        mixing=inflation * drift * absence * (1 + 1 / (1 - rho) ** 2),
    )


def descent_terms(
    *, local_lr, lr, steps, k, smoothness, sigma_squared, delta_max, gradient, staleness, client_gradients,
    approximation, consensus
):  # fmt: skip
    """Lemma (descent lemma), for η = η_l η_g ≤ 1/(8sL) and η_l ≤ 1/(4sL): bounds E[F̃(z̄^{t+1}) - F̃(z̄^t) | F^t] by

    -(ηs/3)‖∇F̃(z̄)‖² + 2ηsLσ²(ηδ_max + 9mη_l²sL)/M²·Σ e_i² + 65η_gη_l³s³L²/M·Σ e_i²‖∇F_i(x_i)‖²
    + 4ηsL²/M·Σ‖x_i - z_i‖² + ηsL²/(2M)·Σ‖z_i - z̄‖².

    The arrays [m] ``staleness``, ``client_gradients``, ``approximation`` and ``consensus`` hold e_i, ‖∇F_i(x_i)‖²,
    ‖x_i - z_i‖² and ‖z_i - z̄‖² of the m regular clients; ``gradient`` is ‖∇F̃(z̄)‖².
    """
    squares = np.asarray(staleness, dtype=float) ** 2
    clients, product = len(squares), local_lr * lr
    total, visible = clients + k, product * steps * smoothness
    noise = product * delta_max + 9 * clients * local_lr**2 * steps * smoothness
    drift = 65 * lr * local_lr**3 * steps**3 * smoothness**2
    return bound_of(
        gradient=-product * steps / 3 * gradient,
        noise=2 * visible * sigma_squared * noise / total**2 * squares.sum(),
        local_drift=drift / total * (squares * client_gradients).sum(),
        approximation=4 * visible * smoothness / total * np.sum(approximation),
        consensus=visible * smoothness / (2 * total) * np.sum(consensus),
    )


def descent_step(curvature, gradients, models, echo, prob, server, sigma, lr, steps, k):
    """The exact change of F~ in one round of scalar quadratics, the terms of the lemma and m/M, at eta = 1/(8sL).

    F~ is quadratic, and the clients come independently: mean and variance of the step are sums over clients.
    """
    total, smoothness = len(models) + k, np.abs(curvature).max()
    local_lr = 1 / (8 * steps * smoothness * lr)
    eta, kept = local_lr * lr, 1 - local_lr * curvature
    z = models - eta * steps * (echo - 1) * gradients
    mean = (z.sum() + k * server) / total
    absent = -eta * steps * gradients  # z_i after the round minus z_i before
    walked = local_lr * sum(kept**r for r in range(steps)) * gradients  # by the local steps of a visit
    present = models - lr * echo * walked - z
    noise = (lr * echo * local_lr * sigma) ** 2 * sum(kept ** (2 * r) for r in range(steps))
    step = (prob * present + (1 - prob) * absent).sum() / total
    variance = (prob * (1 - prob) * (present - absent) ** 2 + prob * noise).sum() / total**2
    slope = (gradients + curvature * (mean - models)).sum() / total
    change = slope * step + curvature.sum() / total * (step**2 + variance) / 2
    terms = descent_terms(
        local_lr=local_lr, lr=lr, steps=steps, k=k, smoothness=smoothness, sigma_squared=sigma**2, delta_max=prob.max(),
        gradient=slope**2, staleness=echo, client_gradients=gradients**2, approximation=(models - z) ** 2,
        consensus=(z - mean) ** 2,
    )  # fmt: skip
    return change, terms, len(models) / total


def approximation_bound(
    *, local_lr, lr, steps, smoothness, beta, zeta, delta, period, clients, k, gradient, consensus
):  # fmt: skip
    """Proposition (client dis), eq. (approx error), as printed: bounds (1/MT) Σ_t Σ_{i≤m} E‖x_i - z_i‖² by

    3η²s²V [ (M/m)(β²+1)·‖∇F̃(z̄)‖² + (m/M)ζ² + L²·consensus ],   V = [((P-1)δ+1)² + (P-1)δ² + 1]/δ².

    ``consensus`` is the mean of (1/M) Σ_{i≤m} E‖z_i - z̄‖². The paper asks for no learning rate, but without one the
    inequality is false. With those of ``theorem_rate_limits`` it holds (errata, entry 12).
    """
    total = clients + k
    scale = 3 * (local_lr * lr * steps) ** 2 * paper_second_moment_bound(period, delta)
    return bound_of(
        gradient=scale * total / clients * (beta**2 + 1) * gradient,
        heterogeneity=scale * clients / total * zeta**2,
        consensus=scale * smoothness**2 * consensus,
    )


def consensus_bound(
    *, local_lr, lr, steps, sigma_squared, beta, zeta, delta, period, clients, k, rho, gradient, printed=False
):
    """Lemma (consensus z) with a proof: bounds (1/MT) Σ_t Σ_{i≤M} E‖z_i - z̄‖² by η²/(1-ρ_k)² times

    17 s P V' (m/M)σ² + 146 s² P² [ (M/m)(β²+1)·‖∇F̃(z̄)‖² + (m/M)ζ² ],   V' = ``moment_bounds``;

    ``printed``: 32 s P V (m/M)σ² + 24 s² P V [ (M/m)(β²+1)·‖∇F̃(z̄)‖² + (m/M)ζ² ],   V as in ``approximation_bound``.

    V' holds in every round, the printed V when P divides t; 17 and 146 are of the repaired proof; and P² stands for
    P·V. For P ≥ 6 or δ ≤ 0.5 the printed terms of gradient and heterogeneity are the larger ones. The printed noise
    term is larger for P = 1, and smaller for long windows: 0.91 times this one at P = 4, δ = 0.5, 0.52 times at
    P = 100, δ = 0.1, and never below 32/68 of it.
    """
    total, rough = clients + k, (local_lr * lr) ** 2 / (1 - rho) ** 2 * steps * period
    v, per_window = moment_bounds(period, delta)[1], period
    if printed:
        v = per_window = paper_second_moment_bound(period, delta)
    drift = (GRADIENT_PRINTED if printed else GRADIENT) * rough * steps * per_window
    return bound_of(
        noise=(NOISE_PRINTED if printed else NOISE) * rough * v * clients / total * sigma_squared,
        gradient=drift * total / clients * (beta**2 + 1) * gradient,
        heterogeneity=drift * clients / total * zeta**2,
    )


def client_consensus_bound(*, smoothness, sigma_squared, rho, **others):
    """Corollary (x consensus without pseudo) with constants: bounds (1/MT) Σ_t Σ_{i≤M} E‖x_i - x̄‖².

    X(I-J) = (X-Z)(I-J) + Z(I-J), hence 2·``approximation_bound`` + 2·``consensus_bound``, the former with the latter
    inside. The printed line bounds a squared distance by squared gradients: 1/L² is missing there (errata, entry 17).
    """
    apart = consensus_bound(sigma_squared=sigma_squared, rho=rho, **others)
    stale = approximation_bound(smoothness=smoothness, consensus=1, **others)
    weight = 2 * (1 + stale.consensus)
    return bound_of(
        noise=weight * apart.noise,
        gradient=weight * apart.gradient + 2 * stale.gradient,
        heterogeneity=weight * apart.heterogeneity + 2 * stale.heterogeneity,
    )


def client_consensus_order(*, smoothness, **others):
    """Corollary (x consensus without pseudo), constants 1: the sum of Theorem (z bar rate) over L².

    The mean of ‖x_i - x̄‖² has the order of the mean of ‖∇F(z̄)‖²; the print leaves out the L² that the units need.
    """
    return theorem_bound(smoothness=smoothness, **others).total / smoothness**2
