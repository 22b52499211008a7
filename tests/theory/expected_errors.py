"""All expected errors that the lemmas are about, from the exact moments of ``fedswe.theory.moments``."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from fedswe.errors import require
from fedswe.theory.assumption import FloatArray
from fedswe.theory.moments import Moments, NoisyQuadratics, mean_moments, start, transition


@dataclass(frozen=True)
class ExpectedErrors:
    """Means over clients of expected squares, before a round or averaged over rounds."""

    server_gradient: float  # E‖∇F(x)‖²
    client_mean_gradient: float  # E‖∇F‖² at the mean of the m clients' models
    mean_gradient: float  # E‖∇F(x̄)‖², x̄ the mean over all M regular and virtual clients
    auxiliary_gradient: float  # E‖∇F(z̄)‖²
    approximation: float  # (1/M) Σ_{i≤m} E‖x_i - z_i‖²
    auxiliary_consensus: float  # (1/M) Σ_{i≤M} E‖z_i - z̄‖²
    regular_auxiliary_consensus: float  # the same over the m regular clients, still over M
    consensus: float  # (1/M) Σ_{i≤M} E‖x_i - x̄‖²


def expected_errors(problem: NoisyQuadratics, round_: int) -> ExpectedErrors:
    """The errors after ``round_`` rounds; at round 0 all models are the start."""
    require(round_ >= 0, f"round {round_} must be at least 0")
    state, power = start(problem), transition(problem)
    while round_:
        if round_ % 2:
            state = power @ state
        power, round_ = power @ power, round_ // 2
    return _errors(problem, Moments(problem.clients, state))


def mean_expected_errors(problem: NoisyQuadratics, rounds: int) -> ExpectedErrors:
    """The errors averaged over t = 0..T-1, as in the theorem."""
    return _errors(problem, mean_moments(problem, rounds))


def _errors(problem: NoisyQuadratics, moments: Moments) -> ExpectedErrors:
    m, k, c, square = problem.clients, problem.k, problem.curvature, moments.square
    total = m + k
    b = problem.local_lr * problem.lr * problem.steps * c
    model, optimum = np.eye(4)[[0, 3]]
    distance = b * np.array([-1.0, 1.0, -1.0, 1.0])  # x_i - z_i = b(e_i - 1)(x_i - u_i)
    auxiliary = model - distance

    def regular(of_client: FloatArray) -> float:
        """(1/M) Σ over regular clients of the squared distance from the mean over all."""
        return m / total * square(-k / total, -of_client / total, of_client)

    def virtual(of_client: FloatArray) -> float:
        return k / total * square(1.0 - k / total, -of_client / total)

    values = {
        "server_gradient": c**2 * square(1.0, -optimum / m),
        "client_mean_gradient": c**2 * square(0.0, (model - optimum) / m),
        "mean_gradient": c**2 * square(k / total, model / total - optimum / m),
        "auxiliary_gradient": c**2 * square(k / total, auxiliary / total - optimum / m),
        "approximation": m / total * square(0.0, 0.0 * model, distance),
        "auxiliary_consensus": regular(auxiliary) + virtual(auxiliary),
        "regular_auxiliary_consensus": regular(auxiliary),
        "consensus": regular(model) + virtual(model),
    }
    # Squares: below 0 is rounding.
    return ExpectedErrors(**{field.name: max(values[field.name], 0.0) for field in fields(ExpectedErrors)})
