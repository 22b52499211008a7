"""The spectral lemma: the printed single-round bound is violated, the corrected forms never."""

import math

import numpy as np
import pytest

from fedswe.theory.assumption import window_delta
from fedswe.theory.mixing import log_gap, rho
from tests.theory.definitions import conference_bound, single_round_gap_printed


def bound(clients, k, delta, period=1):
    return -math.expm1(log_gap(clients, k, delta, period))


def test_the_corrected_single_round_value():
    # [100·.5 + 100 + 200]² · .25 / (8 · 20⁴)
    assert bound(10, 10, 0.5) == pytest.approx(1 - 350**2 * 0.25 / (8 * 20**4))


def test_printed_violated_and_corrected_holding_on_random_rounds():
    rng = np.random.default_rng(0)
    violated = 0
    for _ in range(300):
        clients, k = int(rng.integers(2, 12)), float(rng.choice([0, rng.uniform(0, 3), rng.integers(1, 30)]))
        prob = rng.uniform(0.01, 1.0, (1, clients)) ** rng.choice([0.2, 1.0])
        delta = window_delta(prob, 1)
        exact = rho(prob, k)
        violated += exact > 1 - single_round_gap_printed(clients, k, delta) + 1e-9
        assert exact <= bound(clients, k, delta) <= 1
        if k == 0:
            assert exact <= conference_bound(clients, delta) <= 1
    assert violated > 100


def test_the_single_round_bound_decreases_in_k():
    values = [bound(10, k, 0.3) for k in (0, 0.5, 1, 5, 20, 100)]
    assert values == sorted(values, reverse=True)


def test_without_interpolation_the_corrected_bound_is_the_conference_one_up_to_empty_rounds():
    assert bound(7, 0, 0.4) == pytest.approx(1 - 0.4**4 / 8)
    assert bound(200, 0, 0.4) == pytest.approx(conference_bound(200, 0.4))


def test_the_bound_holds_on_random_windows_for_real_k():
    rng = np.random.default_rng(1)
    for _ in range(300):
        clients, period = int(rng.integers(2, 5)), int(rng.integers(2, 5))
        k = float(rng.choice([10 ** rng.uniform(-4, 1), rng.integers(1, 6)]))
        prob = rng.random((period, clients)) * (rng.random((period, clients)) < 0.5)
        prob[rng.integers(period), prob.sum(axis=0) == 0] = 0.5
        delta = window_delta(prob, period)
        assert rho(prob, k) <= bound(clients, k, delta, period) + 1e-10
        gap = (clients**2 * delta + k**2 + 2 * clients * k) ** 2 * delta**2 / (8 * (clients + k) ** (4 * period + 2))
        expected = math.log(gap) + (4 * period - 2) * math.log(min(1, k))
        assert log_gap(clients, k, delta, period) == pytest.approx(expected)


def test_the_printed_block_bound_fails_for_a_small_real_k():
    k = 1e-5
    printed = 1 - (4 * 0.5 + k**2 + 4 * k) ** 2 * 0.25 / (8 * (2 + k) ** 10)
    assert printed + 1e-5 < rho(np.eye(2), k) <= bound(2, k, 0.5, 2)
