"""Assumption 1: windows, their smallest mean, the smallest period, and what a trace says about them."""

from types import SimpleNamespace

import numpy as np
import pytest

from fedswe.theory.assumption import (
    chernoff_lower,
    chernoff_upper,
    delta_profile,
    profile_limits,
    realised_staleness,
    smallest_period,
    trace_period,
    trace_statistics,
    window_delta,
    window_means,
)

ALTERNATING = np.array([[1.0, 0.0], [0.0, 1.0]] * 4)


def direct_delta(prob, period):
    return min(
        np.mean([prob[t, i] for t in range(n * period, (n + 1) * period)])
        for i in range(prob.shape[1])
        for n in range(len(prob) // period)
    )


def test_window_means_ignore_the_incomplete_last_window():
    prob = np.array([[0.2], [0.4], [0.6], [0.8], [0.0]])
    assert window_means(prob, 2) == pytest.approx(np.array([[0.3], [0.7]]))
    assert window_delta(prob, 2) == pytest.approx(0.3)


def test_delta_agrees_with_its_definition():
    prob = np.random.default_rng(0).random((13, 4))
    profile = delta_profile(prob)
    for period in range(1, 14):
        assert window_delta(prob, period) == pytest.approx(direct_delta(prob, period))
        assert profile[period - 1] == pytest.approx(direct_delta(prob, period))


def test_alternating_groups_have_period_two():
    assert window_delta(ALTERNATING, 2) == 0.5
    assert smallest_period(delta_profile(ALTERNATING), 0.5) == 2


def test_delta_is_not_monotone_in_the_period():
    profile = delta_profile(ALTERNATING)
    assert profile[1] == 0.5
    assert profile[2] == pytest.approx(1 / 3)
    assert profile[3] == 0.5


def test_smallest_period_is_the_first_feasible_one():
    rng = np.random.default_rng(1)
    for _ in range(50):
        prob = rng.random((24, 3)) * (rng.random((24, 3)) < 0.6)
        delta = float(rng.uniform(0.02, delta_profile(prob).max()))
        period = smallest_period(delta_profile(prob), delta)
        assert direct_delta(prob, period) >= delta - 1e-9
        assert all(direct_delta(prob, shorter) < delta for shorter in range(1, period))


def test_chernoff_limits_solve_their_equation():
    mean, trials, alpha = np.array([0.3, 0.9]), np.array([50, 10]), 0.05
    for limit in (chernoff_lower(mean, trials, alpha), chernoff_upper(mean, trials, alpha)):
        divergence = mean * np.log(mean / limit) + (1 - mean) * np.log((1 - mean) / (1 - limit))
        assert trials * divergence == pytest.approx(np.log(20))
    assert (chernoff_lower(mean, trials, alpha) < mean).all()
    assert (chernoff_upper(mean, trials, alpha) > mean).all()


def test_chernoff_limits_at_the_ends():
    # All of n successes: KL(1‖q) = -log q, hence q = α^{1/n}; no success says nothing from below.
    assert chernoff_lower(1.0, 10, 0.05) == pytest.approx(0.05**0.1)
    assert chernoff_upper(0.0, 10, 0.05) == pytest.approx(1 - 0.05**0.1)
    assert chernoff_lower(0.0, 10, 0.05) == 0.0
    assert chernoff_upper(1.0, 10, 0.05) == 1.0


def test_limits_of_the_profile_cover_the_truth_when_probabilities_change_every_round():
    rng = np.random.default_rng(2)
    prob = rng.random((200, 5)) ** 2
    truth, hits = direct_delta(prob, 50), 0
    for _ in range(60):
        lower, upper = profile_limits(delta_profile(rng.random(prob.shape) < prob), 5, 0.95)
        hits += lower[49] <= truth <= upper[49]
    assert hits >= 57


def test_the_error_is_shared_by_all_windows_and_periods():
    trace = np.random.default_rng(5).random((60, 4)) < [0.3, 0.5, 0.7, 0.9]
    profile, periods = delta_profile(trace), np.arange(1, 61)
    lower, upper = profile_limits(profile, 4, 0.9)
    assert lower[5] == pytest.approx(chernoff_lower(profile[5], 6, 0.1 / (2 * 40)))
    assert upper[5] == pytest.approx(chernoff_upper(profile[5], 6, 0.1 / (2 * 40)))
    alpha = 0.1 / (2 * 60 * 4 * (60 // periods))
    lower, upper = chernoff_lower(profile, periods, alpha), chernoff_upper(profile, periods, alpha)
    for delta in (0.02, 0.05, 0.1, 0.3):
        found = trace_period(trace, delta, confidence=0.9)
        possible = [p for p in periods if all(upper[q - 1] >= delta for q in range(p, 61, p))]
        assert found["possible"] == min(possible)
        assert found["certified"] == min((p for p in periods if lower[p - 1] >= delta), default=None)


def test_trace_period_brackets_the_true_period():
    rng = np.random.default_rng(4)
    prob = np.full((1000, 2), 0.9)
    prob[np.arange(1000) % 100 < 50, 1] = 0.0
    truth = smallest_period(delta_profile(prob), 0.3)
    assert 50 < truth <= 100
    estimates = [trace_period(rng.random(prob.shape) < prob, 0.3) for _ in range(10)]
    for estimate in estimates:
        assert estimate["possible"] <= truth <= estimate["certified"] <= 400
        assert estimate["possible"] > 10  # shorter periods have a multiple that fits between two bursts


def test_a_client_that_comes_too_rarely_refutes_every_period():
    trace = np.random.default_rng(6).random((600, 2)) < 0.3
    estimate = trace_period(trace, 0.5)
    assert (estimate["possible"], estimate["certified"]) == (None, None)


def test_a_short_trace_certifies_nothing():
    estimate = trace_period(np.ones((3, 2)), 0.9)
    assert estimate == {"period": 1, "possible": 1, "certified": None}


def test_realised_staleness_of_a_small_trace():
    trace = [[1, 0], [0, 0], [1, 0], [0, 1], [0, 0]]
    assert realised_staleness(trace).tolist() == [[1, 1], [1, 2], [2, 3], [1, 4], [2, 1]]


def test_echo_identity_on_random_traces():
    # Prop. 1: Σ_t 1{i∈A^t}(t - τ_i(t)) = τ_i(T) + 1.
    rng = np.random.default_rng(5)
    for _ in range(20):
        trace = rng.random((30, 4)) < 0.2
        echoes = (realised_staleness(trace) * trace).sum(axis=0)
        last = [max([t for t in range(30) if trace[t, i]], default=-1) for i in range(4)]
        assert echoes.tolist() == [t + 1 for t in last]


def test_trace_statistics_of_a_small_trace():
    stats = SimpleNamespace(**trace_statistics([[1, 0, 0], [0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0]]))
    assert stats.mean_available == pytest.approx(0.6)
    assert stats.empty_rounds == 2
    assert stats.participations.tolist() == [2, 1, 0]
    assert stats.jain_index == pytest.approx(9 / (3 * 5))
    assert stats.longest_gap.tolist() == [3, 4, 6]  # the open gap of client 0 ends after the last round
    assert stats.mean_gap.tolist() == [1.5, 4.0, float("inf")]
    assert stats.tau_max == 5
    assert stats.tau_avg == pytest.approx((1 + 2 + 3 + 4 + 5) / 5)
    assert stats.mean_staleness == pytest.approx((1 + 1 + 2 + 1 + 2 + 1 + 2 + 3 + 4 + 1 + 1 + 2 + 3 + 4 + 5) / 15)


def test_full_availability_is_fair_and_fresh():
    stats = SimpleNamespace(**trace_statistics(np.ones((7, 3))))
    assert (stats.jain_index, stats.tau_max, stats.tau_avg, stats.mean_staleness) == (1.0, 1, 1.0, 1.0)
    assert stats.longest_gap.tolist() == [1, 1, 1]
