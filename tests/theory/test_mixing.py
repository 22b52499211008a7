"""Mixing: W, its windows, and ρ by enumeration, by quadrature, in closed form and by simulation."""

import itertools
from functools import reduce

import numpy as np
import pytest

from fedswe.theory.assumption import chernoff_upper
from fedswe.theory.mixing import (
    _leading_pair,
    consensus_direction,
    expected_gram,
    realised_rho,
    rho,
    rho_from_windows,
    rho_homogeneous,
    rho_limit,
    rho_monte_carlo,
    second_eigenvalue,
)
from tests.theory.definitions import enumerated_gram, mixing_matrix, reduced_mixing_matrix, window_product

KS = (0, 1, 2, 5, 10, 20, 50, 100)
REFERENCE = {
    0.1: (0.9613, 0.9349, 0.9248, 0.9134, 0.9077, 0.9041, 0.9017, 0.9009),
    0.3: (0.7746, 0.7526, 0.7413, 0.7256, 0.7158, 0.7090, 0.7039, 0.7020),
    0.5: (0.5554, 0.5445, 0.5374, 0.5255, 0.5168, 0.5100, 0.5045, 0.5024),
    0.7: (0.3333, 0.3286, 0.3250, 0.3183, 0.3127, 0.3079, 0.3037, 0.3020),
    0.9: (0.1111, 0.1099, 0.1089, 0.1068, 0.1050, 0.1032, 0.1015, 0.1008),
    1.0: (0.0,) * 8,
}


def random_window(rng, rounds, clients):
    """Probabilities with exact zeros and ones among them."""
    prob = rng.random((rounds, clients))
    prob[rng.random(prob.shape) < 0.2] = 0.0
    prob[rng.random(prob.shape) < 0.1] = 1.0
    return prob


def two_groups(first, second, clients=10, rounds=20):
    prob = np.zeros((rounds, clients))
    prob[: rounds // 2, : clients // 2] = first
    prob[rounds // 2 :, clients // 2 :] = second
    return prob


def dense_second_eigenvalue(prob, k, transpose_first=False):
    """λ2(E[W Wᵀ]) from M×M products over all 2^(Pm) traces, no recursion and no reduction."""
    rounds, clients = prob.shape
    gram = 0.0
    for bits in itertools.product((0, 1), repeat=rounds * clients):
        trace = np.array(bits).reshape(rounds, clients)
        chance = np.where(trace, prob, 1 - prob).prod()
        product = reduce(np.matmul, [mixing_matrix(row, k) for row in trace])
        gram = gram + chance * (product.T @ product if transpose_first else product @ product.T)
    return np.sort(np.linalg.eigvalsh(gram))[-2]


@pytest.mark.parametrize("k", [0, 1, 4])
def test_w_is_a_symmetric_doubly_stochastic_projection(k):
    for flags in itertools.product((0, 1), repeat=4):
        w, n = mixing_matrix(flags, k), sum(flags)
        assert w == pytest.approx(w.T)
        assert (w >= 0).all()
        assert w.sum(axis=0) == pytest.approx(np.ones(4 + k))
        assert w @ w == pytest.approx(w)
        assert np.trace(w) == pytest.approx(4 + k - (n + k) + 1 if n + k else 4)


def test_w_entries_of_the_definition():
    w = mixing_matrix([1, 0, 1], 2)
    assert w[0, 2] == w[0, 3] == w[3, 4] == w[0, 0] == 0.25
    assert w[1, 1] == 1
    assert w[1, 0] == w[1, 3] == 0


def test_the_window_product_keeps_the_order_of_rounds():
    trace = np.array([[1, 1, 0], [0, 1, 1]])
    product = window_product(trace, 0)
    assert product == pytest.approx(mixing_matrix(trace[0], 0) @ mixing_matrix(trace[1], 0))
    assert not np.allclose(product, product.T)
    # A model held by client 0 reaches client 2 through client 1, not the other way round.
    assert product[0, 2] == 0.25
    assert product[2, 0] == 0.0


@pytest.mark.parametrize("k", [0, 1, 3])
def test_the_reduced_form_is_w_seen_along_the_virtual_sum(k):
    clients = 4
    frame = np.zeros((clients + k, clients + 1))
    frame[:clients, :clients] = np.eye(clients)
    frame[clients:, clients] = 1 / np.sqrt(max(k, 1))
    for flags in itertools.product((0, 1), repeat=clients):
        reduced = reduced_mixing_matrix(flags, k)
        assert reduced == pytest.approx(frame.T @ mixing_matrix(flags, k) @ frame)
        # Nothing is lost: W does not leave the frame, it kills every other virtual direction.
        assert frame @ reduced @ frame.T == pytest.approx(mixing_matrix(flags, k))


def test_the_reduced_form_fixes_its_consensus_direction_for_a_real_k():
    for k in (0.0, 0.3, 2.5):
        ones = consensus_direction(4, k)
        assert np.linalg.norm(ones) == pytest.approx(1)
        for flags in itertools.product((0, 1), repeat=4):
            w = reduced_mixing_matrix(flags, k)
            assert w @ ones == pytest.approx(ones)
            assert w @ w == pytest.approx(w)


@pytest.mark.parametrize("k", [0, 1, 3])
def test_recursion_and_reduction_equal_the_dense_enumeration_of_all_traces(k):
    rng = np.random.default_rng(k)
    for rounds, clients in ((1, 4), (2, 3), (3, 2)):
        prob = random_window(rng, rounds, clients)
        dense = dense_second_eigenvalue(prob, k)
        assert second_eigenvalue(enumerated_gram(prob, k), k) == pytest.approx(dense, abs=1e-12)
        assert rho(prob, k) == pytest.approx(dense, abs=1e-10)


@pytest.mark.parametrize("k", [0, 1e-6, 0.3, 1, 5.5, 100, 1e6])
def test_quadrature_equals_enumeration(k):
    rng = np.random.default_rng(7)
    for rounds, clients in ((1, 1), (1, 6), (4, 5), (9, 3)):
        if clients == 1 and k == 0:
            continue
        prob = random_window(rng, rounds, clients)
        assert expected_gram(prob, k) == pytest.approx(enumerated_gram(prob, k), abs=1e-10)


def test_reference_values_of_the_closed_form():
    for p, values in REFERENCE.items():
        for k, value in zip(KS, values, strict=True):
            assert rho_homogeneous(10, p, k) == pytest.approx(value, abs=6e-5)


@pytest.mark.parametrize("k", [0, 0.5, 1, 7])
def test_closed_form_equals_enumeration_and_quadrature(k):
    for clients in (2, 5, 8):
        for p in (0.0, 0.05, 0.6, 1.0):
            closed = rho_homogeneous(clients, p, k)
            prob = np.full((1, clients), p)
            assert second_eigenvalue(enumerated_gram(prob, k), k) == pytest.approx(closed, abs=1e-12)
            assert rho(prob, k) == pytest.approx(closed, abs=1e-10)


def test_a_single_client_mixes_with_the_virtual_ones():
    assert rho_homogeneous(1, 0.4, 2) == pytest.approx(0.6)
    assert rho([[0.4]], 2) == pytest.approx(0.6)


@pytest.mark.exhaustive
def test_a_thousand_clients():
    for k in (0, 1000):
        assert rho(np.full((1, 1000), 0.3), k) == pytest.approx(rho_homogeneous(1000, 0.3, k), abs=1e-9)
    prob = np.random.default_rng(8).uniform(0.2, 0.9, (2, 1000))
    exact = rho(prob, 100)
    assert rho_limit(prob) < exact < 1
    estimate = rho_monte_carlo(prob, 100, draws=1000, seed=0)
    assert estimate.lower <= exact <= estimate.upper


def test_two_groups_over_a_window_of_twenty():
    # Exact values; averages over 1000 simulated windows lie above them, the more the smaller ρ is.
    for p, values in {
        0.1: (1, 0.7456, 0.6116, 0.4528, 0.3900, 0.3540),
        0.3: (1, 0.6998, 0.5193, 0.2652, 0.1310, 0.0348),
        0.5: (1, 0.6947, 0.5106, 0.2506, 0.1118, 0.0092),
    }.items():
        prob = two_groups(p, p)
        for k, value in zip((0, 1, 2, 5, 10, 50), values, strict=True):
            assert rho(prob, k) == pytest.approx(value, abs=6e-5)


def test_the_order_of_w_and_its_transpose_matters():
    prob = np.array([[0.2, 0.3, 0.0], [0.0, 0.0, 0.9]])
    assert rho(prob, 1) == pytest.approx(dense_second_eigenvalue(prob, 1))
    # WᵀW of a window is W Wᵀ of the reversed one.
    other = dense_second_eigenvalue(prob, 1, transpose_first=True)
    assert rho(prob[::-1], 1) == pytest.approx(other)
    assert abs(other - rho(prob, 1)) > 0.01


def test_rho_bounds_the_consensus_error_of_the_lemma_with_equality_at_its_eigenvector():
    # E‖b(W - 11ᵀ/M)‖² ≤ ρ‖b‖² for b ⊥ 1, b a row multiplied from the left.
    prob, k = np.array([[0.2, 0.3, 0.0], [0.0, 0.4, 0.9]]), 1
    gram = 0.0
    for bits in itertools.product((0, 1), repeat=6):
        trace = np.array(bits).reshape(2, 3)
        deviation = window_product(trace, k) - 1 / 4
        gram = gram + np.where(trace, prob, 1 - prob).prod() * deviation @ deviation.T
    assert np.linalg.eigvalsh(gram)[-1] == pytest.approx(rho(prob, k))


def test_rho_decreases_in_k_on_the_paper_examples_and_tends_to_the_limit():
    grid = [*KS, 1e3, 1e5, 1e7]
    examples = [np.full((1, 10), p) for p in REFERENCE if p < 1]
    examples += [two_groups(0.1, 0.1), two_groups(0.3, 0.5)]
    for prob in examples:
        values = [rho(prob, k) for k in grid]
        assert (np.diff(values) < 1e-9).all()
        assert values[-1] == pytest.approx(rho_limit(prob), abs=1e-5)
        assert values[-1] >= rho_limit(prob) - 1e-9


def test_the_limit_is_not_zero():
    assert rho_limit(np.full((1, 4), 0.3)) == pytest.approx(0.7)
    assert rho_limit([[0.5, 1.0], [0.2, 0.0]]) == pytest.approx(0.4)


def test_an_absent_client_never_mixes():
    assert rho([[0.5, 0.5, 0.0]], 3) == pytest.approx(1)
    assert rho(two_groups(0.5, 0.5), 0) == pytest.approx(1)  # two groups that never meet


@pytest.mark.parametrize(
    ("p", "k"), [(0.5, 0), *(pytest.param(*of, marks=pytest.mark.exhaustive) for of in ((0.1, 1), (0.9, 10)))]
)
def test_monte_carlo_covers_the_closed_form(p, k):
    truth = rho_homogeneous(10, p, k)
    estimates = [rho_monte_carlo(np.full((1, 10), p), k, draws=8000, seed=seed) for seed in range(100)]
    assert sum(e.lower <= truth <= e.upper for e in estimates) >= 95
    assert all(e.lower < e.rho < e.upper for e in estimates)
    assert max(e.upper - e.lower for e in estimates) < 0.08
    assert np.mean([e.rho for e in estimates]) == pytest.approx(truth, abs=0.01)


@pytest.mark.exhaustive
def test_monte_carlo_covers_a_window():
    prob = np.random.default_rng(10).random((3, 6)) * 0.4
    exact = rho(prob, 2.5)
    estimates = [rho_monte_carlo(prob, 2.5, draws=4000, seed=seed) for seed in range(100)]
    assert sum(e.lower <= exact <= e.upper for e in estimates) >= 95
    assert np.mean([e.rho for e in estimates]) == pytest.approx(exact, abs=0.01)


@pytest.mark.parametrize("k", [0, 2])
def test_the_search_finds_the_leading_eigenvector_of_the_averaged_matrix(k):
    rng = np.random.default_rng(12)
    windows = rng.random((200, 3, 30)) < rng.uniform(0.05, 0.4, 30)
    products = [reduce(np.matmul, [reduced_mixing_matrix(row, k) for row in trace]) for trace in windows]
    gram = np.mean([product @ product.T for product in products], axis=0)
    value, vector, _ = _leading_pair(windows, k, rng.standard_normal(31))
    assert value == pytest.approx(second_eigenvalue(gram, k), abs=1e-6)
    assert vector @ gram @ vector == pytest.approx(value)
    assert vector @ consensus_direction(30, k) == pytest.approx(0, abs=1e-12)


def test_windows_may_be_correlated_inside():
    # One coin decides who comes for two rounds: either both clients meet, or neither moves. ρ = 1/2, k = 0.
    coin = np.random.default_rng(11).random(20_000) < 0.5
    windows = np.repeat(coin, 4).reshape(-1, 2, 2)
    estimate = rho_from_windows(windows, 0, seed=0)
    assert estimate.lower <= 0.5 <= estimate.upper
    assert estimate.upper - estimate.lower < 0.06
    assert rho(np.full((2, 2), 0.5), 0) == pytest.approx((3 / 4) ** 2)  # independent coins differ


def test_the_interval_by_hand():
    """Two clients meet or stay apart, k = 0: W W^T keeps their difference or removes it, one v for both halves."""
    apart = np.random.default_rng(13).random(400) < 0.3
    windows = np.repeat(~apart, 2).reshape(-1, 1, 2)
    estimate = rho_from_windows(windows, 0, seed=0, confidence=0.9)
    theta, held_out = apart[:200].mean(), apart[200:]
    doubt = np.log(2 / 0.05)
    margin = np.sqrt(2 * held_out.var(ddof=1) * doubt / 200) + 7 * doubt / (3 * 199)
    assert estimate.rho == pytest.approx((theta + held_out.mean()) / 2)
    assert estimate.lower == pytest.approx(held_out.mean() - margin)
    assert estimate.upper == pytest.approx(float(chernoff_upper(theta, 200, 0.05)))


def test_certain_availability_leaves_no_doubt_in_the_estimate():
    estimate = rho_monte_carlo(np.ones((1, 6)), 2, draws=4000, seed=0)
    assert estimate.rho == pytest.approx(0, abs=1e-12)
    assert estimate.upper < 0.002


@pytest.mark.parametrize("k", [0, 0.3, 1, 4])
def test_the_rho_of_rounds_that_happened(k):
    rng = np.random.default_rng(8)
    for _ in range(20):
        trace = rng.random((int(rng.integers(1, 7)), int(rng.integers(2, 7)))) < 0.6
        assert realised_rho(trace, k) == pytest.approx(rho(trace, k), abs=1e-8)
        if k == int(k):
            w = window_product(trace, int(k))
            assert realised_rho(trace, k) == pytest.approx(np.sort(np.linalg.eigvalsh(w @ w.T))[-2], abs=1e-10)
