"""The descent lemma, with the paper's constants.

Notation of ``fedswe.theory.rates``. e_i = t - τ_i(t) is client i's echo, z_i its auxiliary model (Definition auxiliary
sequence), z̄ the mean over all M = m + k regular and virtual clients, and F̃ = (m/M)F.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedswe.errors import require
from fedswe.theory.assumption import check_k
from fedswe.theory.rates import check_positive, check_problem


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
