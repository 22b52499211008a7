"""What the functions of fedswe.theory cannot compute is refused in one sentence that names it."""

import dataclasses
import math

import numpy as np
import pytest

from fedswe.errors import FedsweError
from fedswe.theory import assumption, limits, mixing, moments, rates, staleness, step_shares

HALVES = np.full((8, 2), 0.5)
TURNS = np.tile(np.eye(2), (4, 1))
PROBLEM = moments.NoisyQuadratics(clients=3, p=0.4, k=1.5, local_lr=0.3, lr=0.8, steps=2)
NOISY = {"clients": 4, "steps": 1, "p": 0.5, "k": 4, "sigma": 1.0}
BOUND = {
    "steps": 2, "rounds": 10, "initial_gap": 1.0, "smoothness": 1.0, "sigma_squared": 1.0, "zeta": 1.0, "delta": 0.5,
    "delta_max": 0.9, "period": 2, "clients": 4, "k": 1.0, "rho": 0.5,
}  # fmt: skip


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: assumption.window_delta(TURNS, 1), r"client 1 has probability 0 in all of rounds 0\.\.0"),
        (lambda: assumption.window_delta([[0, 0.5, 0], [0.5, 0, 0]], 1), "client 2 has probability 0 in every round"),
        (lambda: assumption.window_delta([[0.5, 0.5], [0.5, math.nan]], 1), "client 1 in round 1"),
        (lambda: assumption.window_delta(HALVES, 9), "between 1 and the 8 rounds"),
        (lambda: assumption.probability_matrix(np.zeros((2, 0))), "rounds, clients"),
        (lambda: assumption.smallest_period(np.ones(3), 0), "delta 0 must"),
        (lambda: assumption.trace_period(TURNS, 0.1, confidence=1.5), "confidence .* must"),
        (lambda: assumption.trace_period(HALVES, 0.1), "only 0 and 1"),
        (lambda: assumption.trace_statistics(np.zeros((4, 2))), "no client is available"),
        (lambda: mixing.rho(HALVES, -1), "k = -1"),
        (lambda: mixing.rho_homogeneous(3, 0.5, math.nan), "k = nan"),
        (lambda: mixing.rho_monte_carlo(HALVES, 1e300, 100, 0), "k = 1e"),
        (lambda: mixing.rho([[0.5]], 0), "nothing to mix"),
        (lambda: mixing.rho_monte_carlo(HALVES, 1, draws=2, seed=0), "too few"),
        (lambda: mixing.rho_from_windows(np.full((5, 1, 2), 0.5), 1, seed=0), "booleans"),
        (lambda: mixing.realised_rho(HALVES, 1), "only 0 and 1"),
        (lambda: mixing.log_gap(3, 1, 1.5, 1), r"delta 1\.5"),
        (lambda: mixing.log_gap(3, 0, 0.5, 2), "needs k > 0"),
        (lambda: mixing.log_gap(3, 1, 0.5, 0), "period 0"),
        (lambda: staleness.moment_bounds(3, 0.0), "delta 0"),
        (lambda: staleness.echo_quantiles([1, 2], [1.5]), "quantile levels"),
        (lambda: staleness.echo_quantiles([0.0], [0.5]), "no client ever reports"),
        (lambda: limits.fedavg_active_limit([[0.0, 0.0]], 0.1), "no client is ever available"),
        (lambda: limits.fedavg_active_limit([[1.0, 1.0]], 2.5), "does not converge"),
        (lambda: limits.fedswe_limit([[0.5, 0.0]], 0.1, 1.0), "client 1 is never available"),
        (lambda: limits.fedswe_limit([[1.0, 1.0]], 2.5, 0.0), "does not converge"),
        (lambda: limits.echo_gain([[0.0]], 0.1), "never available"),
        (lambda: limits.visit_step(-0.1, 1), "must all be positive"),
        (lambda: limits.fedswe_trace_limit([[0, 1]], 0.1, 1.0), "client 0 is never available"),
        (lambda: limits.fedswe_trace_limit([[1, 1]], 0.0, 1.0), "step 0"),
        (lambda: limits.fedswe_trajectory([[1, 1]], [1.0], 0.1, 1.0, 0.0), "one per client"),
        (lambda: step_shares.interval_shares([0.0, 1.0], 1.0), "never available"),
        (lambda: step_shares.memory_shares([1e-4, 1e-4], 0.9), "converges too slowly"),
        (lambda: step_shares.interval_shares([[0.5], [0.6]], 1.0), "do not change"),
        (lambda: dataclasses.replace(PROBLEM, clients=1), "at least two"),
        (lambda: moments.mean_errors(PROBLEM, 0), "at least 1"),
        (lambda: moments.mean_gradient(10, **NOISY, spread=2.1), "spread"),
        (lambda: moments.rounds_needed(0.0, **NOISY, spread=1.0), "target"),
        (lambda: rates.corollary_bound(**BOUND | {"rho": 1.0}), "rho"),
        (lambda: rates.corollary_bound(**BOUND | {"delta": 0.95}), "delta_max"),
        (lambda: rates.corollary_bound(**BOUND | {"smoothness": math.nan}), "smoothness"),
        (lambda: rates.corollary_bound(**BOUND | {"zeta": -1.0}), "zeta"),
        (lambda: rates.corollary_bound(**BOUND | {"rounds": 0}), "rounds"),
    ],
)
def test_impossible_input_is_refused(call, words):
    with pytest.raises(FedsweError, match=words) as refused:
        call()
    assert "\n" not in str(refused.value)
