"""Staleness: the exact law against simulation; the safe bounds hold, the printed ones do not."""

import numpy as np
import pytest

from fedswe.theory.assumption import realised_staleness, window_delta
from fedswe.theory.staleness import echo_counts, echo_quantiles, moment_bounds, staleness_moments
from tests.theory.definitions import (
    paper_first_moment_bound,
    paper_second_moment_bound,
    staleness_pmf,
    staleness_survival,
)


def random_periodic(rng: np.random.Generator) -> tuple[np.ndarray, int]:
    """Every window holds one burst per client, of the same length and strength but at a random place."""
    period, clients, windows = int(rng.integers(1, 40)), 3, 6
    prob = np.zeros((windows, period, clients))
    length, strength = int(rng.integers(1, period + 1)), rng.choice([1.0, rng.uniform(0.05, 1.0)])
    for n in range(windows):
        for i in range(clients):
            start = int(rng.integers(period - length + 1))
            prob[n, start : start + length, i] = strength
    return prob.reshape(windows * period, clients), period


def test_survival_is_the_product_of_absences_truncated_at_never():
    prob = np.array([[0.1], [0.5], [0.8]])
    assert staleness_survival(prob, 3)[:, 0] == pytest.approx([1, 0.2, 0.2 * 0.5, 0.2 * 0.5 * 0.9, 0])
    assert staleness_survival(prob, 0)[:, 0].tolist() == [1, 0]
    assert staleness_pmf(prob, 3)[:, 0] == pytest.approx([0, 0.8, 0.1, 0.01, 0.09])


def test_exact_law_and_moments_match_simulation():
    rng = np.random.default_rng(0)
    prob = rng.random((12, 3)) * (rng.random((12, 3)) < 0.6)
    repeats = 20_000
    # Clients are independent, so the repetitions can stand beside each other as further clients.
    staleness = realised_staleness(rng.random((12, 3 * repeats)) < np.repeat(prob, repeats, axis=1))
    staleness = staleness.reshape(12, 3, repeats)
    first, second = staleness_moments(prob)
    for t in range(12):
        pmf = staleness_pmf(prob, t)
        assert pmf.sum(axis=0) == pytest.approx(np.ones(3))
        for r in range(t + 2):
            error = 5 * np.sqrt(pmf[r] * (1 - pmf[r]) / repeats) + 1e-12
            assert (np.abs((staleness[t] == r).mean(axis=1) - pmf[r]) <= error).all()
        spread = staleness[t].std(axis=1) / np.sqrt(repeats)
        assert (np.abs(staleness[t].mean(axis=1) - first[t]) <= 5 * spread + 1e-12).all()
        square = staleness[t].astype(float) ** 2
        spread = square.std(axis=1) / np.sqrt(repeats)
        assert (np.abs(square.mean(axis=1) - second[t]) <= 5 * spread + 1e-12).all()


def test_moments_are_those_of_the_law():
    prob = np.random.default_rng(1).random((20, 4))
    first, second = staleness_moments(prob)
    for t in range(21):
        pmf, r = staleness_pmf(prob, t), np.arange(t + 2)
        assert first[t] == pytest.approx(r @ pmf)
        assert second[t] == pytest.approx(r**2 @ pmf)


def test_constant_probability_approaches_the_geometric_law():
    first, second = staleness_moments(np.full((400, 1), 0.2))
    assert first[-1, 0] == pytest.approx(1 / 0.2)
    assert second[-1, 0] == pytest.approx((2 - 0.2) / 0.2**2)
    assert moment_bounds(1, 0.2) == pytest.approx((5, 45))


def test_safe_bounds_hold_on_300_random_periodic_probabilities_and_the_printed_do_not():
    rng = np.random.default_rng(2)
    broken_first = broken_second = 0
    for _ in range(300):
        prob, period = random_periodic(rng)
        delta = window_delta(prob, period)
        first, second = (moment.max(axis=1) for moment in staleness_moments(prob))
        assert np.all((first.max(), second.max()) <= np.add(moment_bounds(period, delta), 1e-9))
        broken_first += first.max() > paper_first_moment_bound(period, delta) + 1e-9
        broken_second += second.max() > paper_second_moment_bound(period, delta) + 1e-9
    assert broken_first > 10
    assert broken_second > 10


def test_echo_counts_satisfy_the_echo_identity():
    rng = np.random.default_rng(3)
    prob = rng.random((40, 3)) * (rng.random((40, 3)) < 0.5)
    counts = echo_counts(prob)
    r = np.arange(len(counts))
    assert counts.sum(axis=0) == pytest.approx(prob.sum(axis=0))
    # Prop. 1 in expectation: Σ_t E[1{i∈A^t}(t - τ_i(t))] = E[τ_i(T)] + 1 = T + 1 - E[T - τ_i(T)].
    assert r @ counts == pytest.approx(41 - staleness_moments(prob)[0][40])


def test_echo_counts_sum_the_law_over_rounds():
    prob = np.random.default_rng(4).random((9, 2))
    direct = np.zeros((10, 2))
    for t in range(9):
        direct[: t + 2] += prob[t] * staleness_pmf(prob, t)
    counts = echo_counts(prob)
    assert counts == pytest.approx(direct[: len(counts)])


def test_horizon_quantiles_weigh_clients_by_participation():
    # Client 0 answers every round with echo 1 (10 updates), client 1 once with echo 10.
    prob = np.zeros((10, 2))
    prob[:, 0] = 1.0
    prob[9, 1] = 1.0
    assert echo_quantiles(echo_counts(prob).sum(axis=1), [0.5, 10 / 11, 0.95]).tolist() == [1, 1, 10]


def test_echoes_with_long_tails_stop_where_nothing_is_left():
    counts = echo_counts(np.full((3000, 2), 0.5))
    assert len(counts) < 100
    assert counts.sum(axis=0) == pytest.approx([1500, 1500])
