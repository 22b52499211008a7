"""All expected errors that the lemmas are about, from the exact moments of ``fedswe.theory.moments``.

Means over clients of expected squares, before a round or averaged over rounds; x̄ and z̄ are means over all M regular
and virtual clients:

    server_gradient              E‖∇F(x)‖²
    client_mean_gradient         E‖∇F‖² at the mean of the m clients' models
    mean_gradient                E‖∇F(x̄)‖²
    auxiliary_gradient           E‖∇F(z̄)‖²
    approximation                (1/M) Σ_{i≤m} E‖x_i - z_i‖²
    auxiliary_consensus          (1/M) Σ_{i≤M} E‖z_i - z̄‖²
    regular_auxiliary_consensus  the same over the m regular clients, still over M
    consensus                    (1/M) Σ_{i≤M} E‖x_i - x̄‖²
"""

from types import SimpleNamespace

import numpy as np

from fedswe.theory.moments import Moments, mean_moments, start, transition


def expected_errors(problem, round_):
    """The errors after ``round_`` rounds; at round 0 all models are the start."""
    return _errors(
        problem, Moments(problem.clients, np.linalg.matrix_power(transition(problem), round_) @ start(problem))
    )


def mean_expected_errors(problem, rounds):
    """The errors averaged over t = 0..T-1, as in the theorem."""
    return _errors(problem, mean_moments(problem, rounds))


def _errors(problem, moments):
    m, k, c, square = problem.clients, problem.k, problem.curvature, moments.square
    total = m + k
    b = problem.local_lr * problem.lr * problem.steps * c
    model, optimum = np.eye(4)[[0, 3]]
    distance = b * np.array([-1.0, 1.0, -1.0, 1.0])  # x_i - z_i = b(e_i - 1)(x_i - u_i)
    auxiliary = model - distance

    def regular(of_client):
        """(1/M) Σ over regular clients of the squared distance from the mean over all."""
        return m / total * square(-k / total, -of_client / total, of_client)

    def virtual(of_client):
        return k / total * square(1 - k / total, -of_client / total)

    values = {
        "server_gradient": c**2 * square(1, -optimum / m),
        "client_mean_gradient": c**2 * square(0, (model - optimum) / m),
        "mean_gradient": c**2 * square(k / total, model / total - optimum / m),
        "auxiliary_gradient": c**2 * square(k / total, auxiliary / total - optimum / m),
        "approximation": m / total * square(0, 0 * model, distance),
        "auxiliary_consensus": regular(auxiliary) + virtual(auxiliary),
        "regular_auxiliary_consensus": regular(auxiliary),
        "consensus": regular(model) + virtual(model),
    }
    return SimpleNamespace(**{name: max(value, 0.0) for name, value in values.items()})  # below 0 is rounding
