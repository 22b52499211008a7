"""Every number quoted on the errata page, recomputed."""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from fedswe.theory.assumption import delta_profile, smallest_period
from fedswe.theory.limits import fedavg_active_limit, fedavg_all_limit, fedavg_bias_map, fedswe_trajectory, visit_step
from fedswe.theory.mixing import log_gap, rho, rho_homogeneous, rho_limit
from fedswe.theory.moments import NoisyQuadratics
from fedswe.theory.rates import corollary_bound, theorem_rate_limits
from fedswe.theory.staleness import moment_bounds, staleness_moments
from fedswe_paper.published import look_up
from tests.theory.definitions import (
    mixing_matrix,
    paper_first_moment_bound,
    paper_second_moment_bound,
    single_round_gap_printed,
    staleness_pmf,
    two_group_cycle,
    window_product,
)
from tests.theory.expected_errors import expected_errors, mean_expected_errors
from tests.theory.statements import GRADIENT, GRADIENT_PRINTED, NOISE, approximation_bound, descent_step, descent_terms

PAGES = Path(__file__).parents[2] / "docs" / "errata.md", Path(__file__).with_name("repaired_proofs.md")
PAGE = " ".join(word for page in PAGES for word in page.read_text(encoding="utf-8").split())
TWO_GROUPS = np.repeat([[0.5] * 5 + [0] * 5, [0] * 5 + [0.5] * 5], 10, axis=0)  # ten rounds each


def quoted(*numbers: str) -> None:
    """The page, or that of its proofs, contains these numbers, written so."""
    for number in numbers:
        assert number in PAGE


def test_interpolation_weights() -> None:
    n, k = 42, 100
    assert n / (n + k) + 1 - 1 / (n + k) == pytest.approx((2 * n + k - 1) / (n + k)) == pytest.approx(1.289, abs=5e-4)
    quoted("1.289", "29 %")


def test_single_round_spectral_bound() -> None:
    assert 1 - single_round_gap_printed(10, 10, 0.5) == pytest.approx(-8.57, abs=5e-3)
    assert rho_homogeneous(10, 0.5, 10) == pytest.approx(0.517, abs=5e-4)
    assert 1 - math.exp(log_gap(10, 10, 0.5, 1)) == pytest.approx(0.976, abs=5e-4)
    quoted("−8.57", "0.517", "0.976")

    def h(k: float, m: int = 10, delta: float = 0.5) -> float:
        return (m**2 * delta + 2 * m * k + k**2) / (m + k) ** 2

    slope = (h(10 + 1e-5) - h(10 - 1e-5)) / 2e-5
    assert slope == pytest.approx(2 * 100 * 0.5 / 20**3, rel=1e-6)


def test_large_k() -> None:
    for p, value, text in ((0.5, 0.502, "0.502"), (0.1, 0.901, "0.901")):
        assert rho_homogeneous(10, p, 100) == pytest.approx(value, abs=5e-4)
        assert rho_limit([[p] * 10]) == pytest.approx(1 - p)
        assert rho_homogeneous(10, p, 1e9) == pytest.approx(1 - p, abs=1e-6)
        quoted(text)
    for first, value, text in ((0.5, 0.001, "0.001 for $p = (0.5, 0.5)$"), (0.1, 0.35, "0.35 for $(0.1, 0.5)$")):
        turns = np.repeat([[first, 0.0], [0.0, 0.5]], 10, axis=0)
        assert rho_limit(turns) == pytest.approx(value, rel=0.03)
        quoted(text)


def second_eigenvalue(table: npt.NDArray[np.float64], k: int, transposed: bool) -> float:
    """lambda_2 of E[W W^T], or of E[W^T W], exactly: independent rounds allow one round at a time."""
    clients = table.shape[1]
    gram = np.eye(clients + k)
    for prob in table if transposed else table[::-1]:
        present = np.flatnonzero(prob)
        after = np.zeros_like(gram)
        for flags in itertools.product([0, 1], repeat=len(present)):
            here = np.zeros(clients, dtype=int)
            here[present] = flags
            chance = np.where(flags, prob[present], 1 - prob[present]).prod()
            w = mixing_matrix(here, k)
            after += chance * w @ gram @ w
        gram = after
    return float(np.sort(np.linalg.eigvalsh(gram))[-2])


def test_the_square_of_a_window() -> None:
    table = np.repeat([[0.1] * 5 + [0] * 5, [0] * 5 + [0.5] * 5], 10, axis=0)
    assert second_eigenvalue(table, 1, transposed=False) == pytest.approx(0.696, abs=5e-4)
    assert second_eigenvalue(table, 1, transposed=True) == pytest.approx(0.745, abs=5e-4)
    assert rho(table, 1) == pytest.approx(second_eigenvalue(table, 1, transposed=False), abs=1e-8)
    quoted("0.696", "0.745")


def test_larger_windows_mix_worse() -> None:
    assert rho_homogeneous(10, 0.5, 1) == pytest.approx(0.544, abs=5e-4)
    assert rho(TWO_GROUPS, 1) == pytest.approx(0.695, abs=5e-4)
    quoted("0.544", "0.695")


def test_staleness_bounds() -> None:
    period, delta = 100, 0.1
    table = np.zeros((200, 1))
    table[:10] = table[190:] = 1.0
    assert table.reshape(2, 100).mean(axis=1) == pytest.approx(delta)
    first, second = staleness_moments(table)
    assert (first[190, 0], second[190, 0]) == (181, 32761)
    assert paper_first_moment_bound(period, delta) == pytest.approx(110)
    assert paper_second_moment_bound(period, delta) == pytest.approx(12080)
    assert moment_bounds(period, delta) == pytest.approx((208, 43354))
    quoted("181 > 110", "32761 > 12080", "208 and 43354")


def test_second_moment_step() -> None:
    period, delta, r = 2, 0.5, np.arange(0, 400)
    tail = (1 - delta) ** np.maximum(r - period, 0.0)
    assert ((2 * r + 1) * tail).sum() == pytest.approx(18)
    assert 2 * (r * tail)[1:].sum() == pytest.approx(14) == pytest.approx(paper_second_moment_bound(period, delta))
    sharper = (1 - delta) ** np.maximum(r - period + 1, 0.0)
    assert ((2 * r + 1) * sharper).sum() == pytest.approx(11)
    assert sharper.sum() == pytest.approx(period - 1 + 1 / delta)
    quoted("makes this 18", "printed sum 14", "then 11")


def test_the_first_moment_tends_to_its_bound() -> None:
    """P = 1 and p = delta: below 1/delta in every round, and as close to it as one likes."""
    delta = 0.2
    first = staleness_moments(np.full((100, 1), delta))[0][:, 0]
    t = np.arange(len(first))
    assert first == pytest.approx((1 - (1 - delta) ** (t + 1)) / delta)
    assert np.all(first < 1 / delta)
    assert first[-1] == pytest.approx(1 / delta, rel=1e-8)
    quoted(r"$(1-(1-\delta)^{t+1})/\delta$")


def test_second_moment_bound_holds_at_multiples_of_the_window() -> None:
    """On windows whose mean is exactly delta: the same number of certain rounds, placed at random, then blurred."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        period, blur = int(rng.integers(1, 9)), float(rng.choice([0, 0.3]))
        visits = int(rng.integers(1, period + 1))
        table = rng.permuted(np.tile(np.arange(period) < visits, (30, 1)), axis=1).reshape(-1, 1)
        delta = visits / period
        first, second = staleness_moments((1 - blur) * table + blur * delta)
        assert np.all(second[::period] <= paper_second_moment_bound(period, delta) + 1e-9)
        assert np.all(first[::period] <= period - 1 + 1 / delta + 1e-9)


def test_counterexample_with_interpolation() -> None:
    for local_lr, steps, amplitude, text in ((0.01, 1, 0.990, "±0.990"), (0.1, 10, 39.4, "±39.4")):
        a = visit_step(local_lr, steps)
        after_first = two_group_cycle([100.0], [-100.0], a, k=1)[0]
        assert after_first == pytest.approx(100 * a / (1 + a)) == pytest.approx(amplitude, rel=2e-3)
        quoted(text)
    server, clients = fedswe_trajectory(np.tile([[1, 0], [0, 1]], (100, 1)), [100.0, -100.0], a, k=1, start=0.0)
    apart = [np.append(clients[t], server[t]).var() for t in (-2, -1)]
    assert apart[0] == pytest.approx(apart[1])  # the same in both phases; the server model is not
    assert server[-2:] == pytest.approx([39.4, -39.4], abs=0.05)
    assert abs(clients[-1].mean()) < 1e-9
    quoted("+39.4, or at −39.4")


def test_third_term_of_the_corollary() -> None:
    steps, rounds, delta, clients, k, period, noise, zeta, r = 3, 700, 0.1, 5, 2.0, 4, 0.7, 1.3, 0.6
    bound = corollary_bound(
        steps=steps, rounds=rounds, initial_gap=1, smoothness=2, sigma_squared=noise, zeta=zeta, delta=delta,
        delta_max=1, period=period, clients=clients, k=k, rho=r,
    )  # fmt: skip
    printed = (clients + k) / clients * steps * clients * period / rounds * (noise + zeta**2)
    printed *= ((period - 1) ** 2 * delta**2 + 1) * (1 + 1 / (1 - r) ** 2)
    assert bound.mixing == pytest.approx(10 * printed)
    quoted("10 for")


def test_descent_lemma_needs_a_small_local_rate() -> None:
    local_lr, lr, steps = 3.0, 1 / 480, 20
    assert local_lr * lr <= 1 / (8 * steps) + 1e-15
    x = 1.0
    for _ in range(steps):
        x -= local_lr * x
    after = 1 - lr * (1 - x)
    assert (after**2 - 1) / 2 == pytest.approx(2388273, abs=0.5)
    terms = descent_terms(
        local_lr=local_lr, lr=lr, steps=steps, k=0, smoothness=1, sigma_squared=0, delta_max=1, gradient=1,
        staleness=[1], client_gradients=[1], approximation=[0], consensus=[0],
    )  # fmt: skip
    assert terms.total == pytest.approx(29250, abs=0.5)
    quoted("2388273", "29250")


def test_noise_term_of_the_descent_lemma() -> None:
    m = k = 100
    assert 17 / (m + k) == pytest.approx(0.0850)
    assert 18 * m / (m + k) ** 2 == pytest.approx(0.0450)
    assert 17 / (17 + 1) <= 18 * 17 / (17 + 1) ** 2  # k = m/17 is the edge
    assert 17 / (17 + 2) > 18 * 17 / (17 + 2) ** 2
    quoted("0.0850", "0.0450", "16.25")


def test_the_descent_lemma_holds_with_65_m_over_m_squared() -> None:
    """Convex and concave clients, any models, echoes and probabilities, k up to 40 m."""
    rng = np.random.default_rng(0)
    for case in range(600):
        m, k = int(rng.integers(1, 7)), float(rng.choice([0, 1, 5, 40]))
        together = case % 2 == 0  # models that agree and echoes of 1: only the local steps err
        models = np.zeros(m) if together else rng.normal(0, 1, m)
        change, terms, share = descent_step(
            rng.uniform(-1, 1, m),
            rng.normal(0, 3, m),
            models,
            np.ones(m) if together else rng.integers(1, 12, m).astype(float),
            np.ones(m) if rng.random() < 0.3 else rng.uniform(0.05, 1, m),
            server=0.0 if together else float(rng.normal()),
            sigma=float(rng.choice([0, 1])),
            lr=float(rng.choice([0.5, 1, 5])),  # at 0.5 eta_l is 1/(4sL)
            steps=int(rng.integers(1, 6)),
            k=k * m,
        )
        slack = terms.total - (1 - share) * terms.local_drift - change
        assert slack >= -1e-12 * (abs(terms.gradient) + abs(change))
    quoted("$65m/M^2$", "$40/8 = 5$")
    assert 3 * 20 + 2 * 20 / 8 == 65  # (A.II) and (B.II)


def test_the_order_m_over_m_squared_is_right() -> None:
    """A convex and a concave client whose gradients nearly cancel: the coefficient needed is c m/M^2, c for every k."""
    ones, needed = np.ones(2), []
    for k in (0.0, 2.0, 20.0, 2000.0):
        change, terms, share = descent_step(
            np.array([1.0, -1.0]), np.array([1.0, -1.0]) + 0.0555, np.zeros(2), ones, ones, 0.0, 0.0, 0.5, steps=5, k=k
        )
        assert change > terms.total - terms.local_drift  # without the term the lemma is false
        needed.append(65 * (change - terms.total + terms.local_drift) / (share * terms.local_drift))
    assert needed == pytest.approx([needed[0]] * 4)
    assert 0.05 < needed[0] < 65


def test_approximation_error() -> None:
    assert paper_second_moment_bound(1, 0.1) == pytest.approx(200)
    assert sum(g**2 for g in range(100)) == 328350
    assert paper_second_moment_bound(100, 0.01) == pytest.approx(49700)
    quoted("200 for", "328350", "49700")


def test_re_indexing_with_a_constant_probability() -> None:
    """The coefficient of g_q is the sum over t of P(tau(t) = q-1)(t-q)^2, by the exact law of the staleness."""
    p, rounds = 0.1, 400
    coefficient = np.zeros(rounds)
    for t in range(rounds):
        law = staleness_pmf([[p]] * rounds, t)[:, 0]  # of r = t - tau(t), and q = tau(t) + 1 = t - r + 1
        for r in range(1, t + 2):
            coefficient[t - r + 1] += law[r] * (r - 1) ** 2
    largest = (1 - p) * (2 - p) / p**2
    assert coefficient[1:].max() == pytest.approx(largest)
    assert largest < paper_second_moment_bound(1, p)
    assert coefficient[0] == pytest.approx(largest / p) == pytest.approx(1710)
    quoted("1710 against 200")


def two_clients(start: float, k: float, rounds: int, prob: float) -> list[tuple[float, list[float], list[float]]]:
    """F_1 = x^2/2, F_2 = (x-1)^2/2, eta s = 1, client 2 always there: (chance, x_1 and e_1 before rounds 0..T)."""
    paths = []
    for flags in itertools.product([False, True], repeat=rounds):
        server, x, echo = start, np.full(2, start), np.ones(2)
        first, echoes = [start], [1.0]
        for flag in flags:
            here = np.array([flag, True])
            report = x - echo * (x - np.array([0.0, 1.0]))
            server = (report[here].sum() + k * server) / (here.sum() + k)
            x, echo = np.where(here, server, x), np.where(here, 1.0, echo + 1)
            first.append(float(x[0]))
            echoes.append(float(echo[0]))
        paths.append((float(np.prod([prob if f else 1 - prob for f in flags])), first, echoes))
    return paths


@pytest.mark.parametrize("k", [0, 1])
def test_the_last_visit_is_not_independent_of_the_model_it_left(k: int) -> None:
    """Step (a) of the proposition at t = 2, all four availability sequences of client 1."""
    t = 2
    for p, excess in ((0.5, 2), (0.1, 10), (0.02, 50)):
        paths = two_clients(0.0, k, t, p)
        left = sum(w * (e[t] - 1) ** 2 * x[t] ** 2 for w, x, e in paths)  # x - z = (e - 1) grad F_1(x), eta s = 1
        right = 0.0
        for last in range(-1, t):
            chance = sum(w for w, _, e in paths if t - e[t] == last)
            right += chance * (t - last - 1) ** 2 * sum(w * x[last + 1] ** 2 for w, x, _ in paths)
        assert left == pytest.approx(excess * right)
        assert left > 0
    quoted("2, 10, 50 times")


def test_staleness_and_gradient_do_not_factorise() -> None:
    paths = two_clients(1.0, 0, 2, 0.5)
    joint = sum(w * e[2] ** 2 * x[2] ** 2 for w, x, e in paths)
    product = sum(w * e[2] ** 2 for w, _, e in paths) * sum(w * x[2] ** 2 for w, x, _ in paths)
    assert (joint, product) == pytest.approx((2.5625, 1.40625))
    quoted("2.5625", "1.40625")


def one_sided(x: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The gradient of F = max(x, 0)^2/2: convex, L = 1."""
    return np.maximum(np.asarray(x, dtype=np.float64), 0.0)


def test_the_proposition_fails_at_large_rates() -> None:
    """One client, k = 0, beta = zeta = 0, no consensus error: Algorithm 1 along every first visit."""
    for p, excess in ((0.1, 2.85), (0.05, 6.175)):
        rounds, left, right = 600, 0.0, 0.0
        for visit in range(rounds + 1):  # none in the T rounds for visit = T
            chance = p * (1 - p) ** visit if visit < rounds else (1 - p) ** rounds
            missed = np.arange(min(visit + 1, rounds))
            z = 1.0 - missed * one_sided(1.0)
            left += chance * float(((1.0 - z) ** 2).sum())
            right += chance * float((one_sided(z) ** 2).sum())
            assert one_sided(1.0 - (visit + 1) * one_sided(1.0)) == 0  # the visit ends where nothing moves any more
        right *= 3 * paper_second_moment_bound(1, p)
        assert left / right == pytest.approx((1 - p) * (2 - p) / (6 * p), rel=1e-6) == pytest.approx(excess)
        assert approximation_bound(
            local_lr=1, lr=1, steps=1, smoothness=1, beta=0, zeta=0, delta=p, period=1, clients=1, k=0,
            gradient=1, consensus=0,
        ).total == pytest.approx(3 * paper_second_moment_bound(1, p))  # fmt: skip
    quoted("2.85 for $p = 0.1$")


def test_the_proposition_fails_at_large_rates_with_interpolation_too() -> None:
    """1000 equal clients, k = 1, all absent in the first 30 rounds of 40: nothing is random."""
    m, k, rate, rounds = 1000, 1, 1.01, 30
    z = 1.0 - rate * np.arange(rounds)
    mean = (m * z + k) / (m + k)  # the virtual client has the start
    left = m / (m + k) * ((1.0 - z) ** 2).mean()
    bound = approximation_bound(
        local_lr=rate, lr=1, steps=1, smoothness=1, beta=0, zeta=0, delta=0.25, period=40, clients=m, k=k,
        gradient=float((m / (m + k)) ** 2 * (one_sided(mean) ** 2).mean()),
        consensus=float(m / (m + k) * ((z - mean) ** 2).mean()),  # of the regular clients, as printed
    )  # fmt: skip
    assert left / bound.total == pytest.approx(1.48, abs=5e-3)
    quoted("1.48 times")


def absence_means(hazard: npt.NDArray[np.float64]) -> tuple[float, float]:
    """E_S[r] and E_S[r^2] for the weights S(r) = prod_{l<r} (1 - p_l)."""
    survival = np.concatenate([[1.0], np.cumprod(1 - hazard)])
    r = np.arange(len(survival))
    return float(r @ survival / survival.sum()), float(r**2 @ survival / survival.sum())


def test_an_absence_with_p_at_least_delta_is_no_longer_than_a_geometric_one() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        delta = rng.uniform(0.02, 1)
        hazard = rng.uniform(delta, 1, int(rng.integers(0, 300))) if rng.random() < 0.5 else np.full(400, delta)
        first, second = absence_means(hazard)
        assert first <= (1 - delta) / delta + 1e-9
        assert second <= (1 - delta) * (2 - delta) / delta**2 + 1e-9


def longest_absence(period: int, delta: float, broken: int) -> float:
    """An upper limit of E_S[r^2]/V: S may fall anywhere in a window, to at most (1-delta)^P of its value at the start.

    ``broken`` rounds of a window come first. max over S of sum_r (r^2 - lambda V) S(r), last window first, is linear in
    each factor; lambda is found by bisection.
    """
    v, kept = paper_second_moment_bound(period, delta), (1 - delta) ** period

    def sums(start: int, count: int, level: float) -> npt.NDArray[np.float64]:
        n = start + np.arange(count + 1.0)
        total = (n - 1) * n * (2 * n - 1) / 6 - level * n
        return np.asarray(total - total[0])

    def positive(level: float) -> bool:
        future = 0.0
        for window in range(int(25 / (delta * period)) + 6, -1, -1):
            before = sums(broken + window * period, period, level)
            future = float((before + kept * np.maximum(before[-1] - before + future, 0)).max())
        if broken:
            before = sums(0, broken, level)
            future = float((before + np.maximum(before[-1] - before + future, 0))[1:].max())
        return future > 0

    low, high = 0.1, 3.0
    while high - low > 5e-3:
        middle = (low + high) / 2
        low, high = (middle, high) if positive(middle * v) else (low, middle)
    return high


def switched(kept: float, switch: int) -> float:
    """The l at which sum_j kept^(j-1) f(a_j) = 0, f(y) = y^3/3 - l y, where a_j = j below ``switch``, then j + 1."""
    j = np.arange(1.0, 200.0)
    a, weight = j + (j >= switch), kept ** (j - 1)
    return float(weight @ a**3 / (3 * weight @ a))


def allowed(c: float) -> float:
    """(4/3) V/P^2 is at least this, c = delta P and P >= 2."""
    return 4 / 3 * (1 + 1 / c if c >= 2 else 0.5 + 1 / c + 2 / c**2)


def test_absences_of_several_windows_fit_into_the_slack_of_the_proposition() -> None:
    """The inequality in c = delta P, where it is not elementary, and the elementary ends."""
    grid = np.exp(np.linspace(math.log(0.3), math.log(8.0), 1000))
    for low, high in itertools.pairwise(grid):  # both sides fall with c: this covers what lies between
        assert max(switched(math.exp(-low), switch) for switch in range(1, 12)) < allowed(float(high))
    for c in np.linspace(0.001, 0.3, 100):  # j + 1 in the numerator, j in the denominator
        y = 1 - math.exp(-c)
        assert 2 / y**2 + (1 + y) / 3 <= allowed(float(c))
        assert 1 / (1 - c / 2) ** 2 + c**2 * (1 + c) / 6 <= 1 + 1.35 * c <= 4 / 3 * (1 + c / 2)
    for c in np.linspace(8, 20, 100):
        kept = math.exp(-c)
        assert switched(kept, 1) <= 4 / 3 * (1 + 3 * kept) <= allowed(float(c))
        assert switched(kept, 2) < 0.4
    for period, delta in itertools.product((2, 3, 7, 50, 1000), (0.001, 0.05, 0.3, 0.7, 1.0)):
        v = paper_second_moment_bound(period, delta) / period**2
        assert allowed(delta * period) <= 4 / 3 * v + 1e-9
    assert 4 / 3 / 0.906 < 1.5


def test_no_absence_found_needs_more_than_the_slack_of_the_proposition() -> None:
    found = [
        longest_absence(period, c / period, broken)
        for period, c in ((2, 0.3), (2, 1), (5, 5), (30, 1), (30, 10), (300, 30), (300, 300), (1000, 300))
        for broken in (0, period // 2, period - 1)
    ]
    assert 1.3 < max(found) < 1.335
    worst_rate = 2 * math.sqrt(2) / 96  # eta s L B at the largest rate
    assert 1 - 2 * worst_rate / (1 - math.exp(-1)) > 0.906
    quoted("at most $1.33V$", "0.906")


def test_a_block_has_at_most_1_in_e_of_the_one_before() -> None:
    for period, delta in ((1, 0.3), (4, 0.25), (20, 0.1), (100, 0.03)):
        block = 2 * (period - 1) + math.ceil(1 / delta)
        late = np.zeros((2 * period, 1))
        late[: math.ceil(delta * period)] = late[2 * period - math.ceil(delta * period) :] = 1.0
        for table in (np.full(60 * block, delta), np.tile(late[:, 0], 60 * block // (2 * period) + 1)):
            for start in (0, 1, period // 2, period - 1, period, period + period // 2):
                first, second = absence_means(table[start : start + 50 * block])
                assert first <= 1.59 * block
                assert second + 2 * first + 1 <= 3.43 * block**2  # E_S[(r+1)^2]
                assert second <= 4 / 3 * paper_second_moment_bound(period, delta)
    x = math.exp(-1)
    assert 1 / (1 - x) < 1.59
    assert (1 + x) / (1 - x) ** 2 < 3.43
    quoted("1.59B", "3.43B^2")


def test_noise_and_later_gradients_are_correlated() -> None:
    """k = 1, client 1 in round 0, nobody in round 1: both factors of the cross term, linear in the noise xi."""
    eta, mean = 0.1, np.full((3, 3), 1 / 3)
    first, second = mixing_matrix([1, 0], 1), mixing_matrix([0, 0], 1)
    for c in (1.0, -1.0):
        noise = np.array([1.0, 0, 0])  # of client 1 in round 0, in units of xi
        after = -eta * noise @ first  # its effect on x_1, x_2 and the server
        gradients = np.array([c, c, 0]) * after  # virtual clients have none
        cross = 2 * (noise @ (first @ second - mean)) @ (gradients @ (second - mean))
        assert cross == pytest.approx(-c * eta / 6)
    quoted(r"-c\,\eta\sigma^2/6")


def test_a_realisation_need_not_contract() -> None:
    """Client 1 comes 400 times, then nobody: the unrolled line of the consensus proof without expectations, P = 1."""
    eta, k, optima = 0.1, 1, np.array([1.0, 0.0])
    server, clients = fedswe_trajectory([[1, 0]] * 400 + [[0, 0]], optima, eta, k, start=0.0)
    gradients = clients - optima
    missed = np.array([[0, 400], [1, 401]])  # t - tau - 1 before and after the empty round
    models = np.concatenate([clients[-2:] - eta * missed * gradients[-2:], server[-2:, None]], axis=1)
    before, after = (float(((z - z.mean()) ** 2).sum()) for z in models)
    mixing = rho_homogeneous(2, 0.5, k)
    middle = (1 + mixing) / 2
    moved = np.append(gradients[-2], 0.0)  # G~ of clients that are absent
    drift = float(((moved - moved.mean()) ** 2).sum())
    assert mixing < middle < 1
    assert after == pytest.approx(before)
    assert after > middle * before + eta**2 / (middle - mixing) * drift
    assert before > 0.6
    assert drift < 1e-12
    quoted("$u = (1, 0)$, $p = 0.5$, $k = 1$, $x^0 = 0$")


def test_constants_of_the_consensus_lemma() -> None:
    """The arithmetic of its proof, entry 16, at the largest rates."""
    local = 8 / 216**2  # (eta_l s L B)^2
    visit = (1 + 20 * 3.43 * local) / 0.906
    assert 20 * 3.43 * local < 0.0118
    assert 1 / 0.906 < 1.11
    gradient = 64 * visit * 2
    assert gradient < 143
    absorbed = 1 / (1 - 143 / 96**2)
    noise = 16 * (1 + 20 / 216**2)
    assert noise < 16.01
    assert noise * absorbed < NOISE
    assert gradient * absorbed < GRADIENT
    for period, delta in itertools.product((1, 2, 3, 5, 6, 20, 100), (0.01, 0.1, 0.5, 0.9, 1.0)):
        v = paper_second_moment_bound(period, delta)
        assert 2 * period <= v + 1e-9
        assert moment_bounds(period, delta)[1] <= 4 * v
        assert period * delta**2 <= (period - 1) ** 2 * delta**2 + 1
        if period >= 6 or delta <= 0.5:
            assert GRADIENT * period**2 <= GRADIENT_PRINTED * period * v
    assert (4 * NOISE, GRADIENT / 2) == (68, 73)
    quoted("17\\,sPV'", "146\\,s^2P^2", "68 and 73", "143/9216", "1.0118/0.906")


def test_units_of_the_consensus_corollary() -> None:
    r = rho_homogeneous(10, 0.5, 10)
    for smoothness, excess in ((1e-4, 20.8), (1e-3, 0.208)):
        limits = theorem_rate_limits(
            rho=r, delta=0.5, period=1, clients=10, k=10, steps=1, smoothness=smoothness, beta=0
        )
        problem = NoisyQuadratics(
            10, 0.5, 10, limits.local, limits.product / limits.local, 1, curvature=smoothness, start=1.0
        )
        errors = mean_expected_errors(problem, 100)
        assert errors.consensus / (4 * errors.auxiliary_gradient) == pytest.approx(excess, rel=5e-3)
    quoted("20.8 times")


def test_consensus_lemma() -> None:
    delta = r = 0.5
    limits = theorem_rate_limits(rho=r, delta=delta, period=1, clients=10, k=0, steps=1, smoothness=1, beta=0)
    assert delta / 20 / limits.local == pytest.approx(10.8)
    appendix = delta * (1 - math.sqrt(r)) / (10 * (math.sqrt(r) + 1))
    assert appendix / limits.product == pytest.approx(3.29, abs=5e-3)
    best = theorem_rate_limits(rho=0, delta=1, period=1, clients=10, k=0, steps=1, smoothness=1, beta=0)
    assert best.product**2 * paper_second_moment_bound(1, 1) == pytest.approx(0.000217, abs=5e-7)
    quoted("10.8 and 3.29", "0.000217")


def test_local_rate_for_large_k() -> None:
    """What the proof absorbs, for the coefficients 65/M and 65 m/M^2 of the descent lemma, as functions of M/m."""
    inside = 1 + GRADIENT / 96**2  # the consensus error in the dissimilarity
    stale, apart = 4 * 3 * 3 * inside, GRADIENT / 2  # 4 times entry 12 with V <= 3X; half of entry 16 with P <= X
    visits = 65 * 2 * 7.33 * inside / 0.906 / 216**2

    def as_printed(inflation: float, coefficient: float) -> float:
        return 28 * 3 / 96**2 + coefficient * 260 * 3 / 216**2 * inflation

    def repaired(inflation: float, coefficient: float) -> float:
        return (stale + apart) / 96**2 + coefficient * visits * inflation

    for needs, edge, total in ((as_printed, 4.43, 0.0258), (repaired, 3.11, 0.0348)):
        assert needs(edge, 1) <= 1 / 12 < needs(edge + 0.02, 1)
        for inflation in (1, 2, edge + 0.02, 100, 1e6):
            assert needs(inflation, 1 / inflation) == pytest.approx(total, abs=5e-5)
        assert total < 1 / 12
    rough = 65 * 2 * 8 * 3.43 / 0.906 / 216**2
    assert rough == pytest.approx(0.0844, abs=5e-5)
    assert rough > 1 / 12
    quoted("M/m \\le 4.43", "M/m \\le 3.11", "0.0844", "84/9216 + 780/46656 = 0.0258")
    quoted("(73 + 36c)/9216 + 65\\cdot2\\cdot7.33\\,c/0.906/46656 = 0.0348", "suffices for every $k$")


def test_noise_of_the_term_with_65() -> None:
    """Inserting eq: hetero consensus at the proof's largest rate, eta s L = (1 - rho)/(10 sqrt(PV))."""
    for period, delta, steps, r in itertools.product((1, 20), (0.1, 0.5), (1, 10), (0.0, 0.9)):
        v = paper_second_moment_bound(period, delta)
        visible = (1 - r) ** 2 / (100 * period * v)  # (eta s L)^2
        assert 65 * v * 96 * visible / steps * period * v / (1 - r) ** 2 == pytest.approx(62.4 * v / steps)
        assert 65 * 3 * (1 + 24 * visible * period * v / (1 - r) ** 2) == pytest.approx(241.8)
    assert paper_second_moment_bound(1, 0.1) == pytest.approx(200)
    assert 62.4 < 65
    assert 241.8 < 260 == 4 * 65
    quoted("$62.4\\,", "(200 for $P = 1$")


def test_the_second_moment_of_the_term_with_65() -> None:
    """E_S[(r+1)^2] <= 7.33 X for P > 1 and 2X for P = 1, X = (P-1)^2 + 1/delta^2."""
    for period, delta in itertools.product((2, 3, 7, 50, 1000), (0.001, 0.05, 0.3, 0.7, 1.0)):
        x = (period - 1) ** 2 + 1 / delta**2
        assert 4 / 3 * paper_second_moment_bound(period, delta) <= 4 * x + 1e-9
        assert (2 * math.sqrt(x) + 1) ** 2 <= 7.33 * x
        assert period <= x
    for period, visits in ((2, 1), (4, 1), (20, 2), (100, 3)):
        x = (period - 1) ** 2 + (period / visits) ** 2
        late = np.zeros(2 * period)
        late[:visits] = late[2 * period - visits :] = 1.0
        for table in (np.full(2000, visits / period), np.tile(late, 20)):
            for start in range(0, 2 * period, max(1, period // 4)):
                first, second = absence_means(table[start:])
                assert second + 2 * first + 1 <= 7.33 * x
    for delta in (0.01, 0.3, 1.0):
        first, second = absence_means(np.full(4000, delta))
        assert second + 2 * first + 1 == pytest.approx((2 - delta) / delta**2)
        assert (2 - delta) / delta**2 <= 2 / delta**2


def test_a_unique_minimum_in_k() -> None:
    def third(k: float, r: float) -> float:
        return (1 + k / 10) * (1 + 1 / (1 - r) ** 2)

    grid = np.linspace(0, 60, 61)
    one_round = [third(k, rho_homogeneous(10, 0.5, k)) for k in grid]
    assert np.all(np.diff(one_round) > 0)
    assert [one_round[k] for k in (0, 1, 10)] == pytest.approx([6.06, 6.40, 10.57], abs=5e-3)
    groups = [third(k, rho(TWO_GROUPS, k)) for k in (1, 6, 50)]
    assert groups == pytest.approx([12.90, 4.15, 12.11], abs=5e-3)
    quoted("6.06, 6.40, 10.57", "12.90, 4.15, 12.11")


PAIRS = [[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1], [0, 1, 0, 1]]  # rounds 0 to 4, clients 1 to 4


def exact_window(rounds: Sequence[Sequence[int]], k: int) -> npt.NDArray[np.object_]:
    """W^(0) ... W^(P-1) in fractions."""
    product = np.array([[Fraction(int(i == j)) for j in range(4 + k)] for i in range(4 + k)])
    for row in rounds:
        here = [*row, *[1] * k]
        share = Fraction(1, sum(here))
        w = [[share if a and b else Fraction(int(i == j)) for j, b in enumerate(here)] for i, a in enumerate(here)]
        product = product @ np.array(w)
    return product


def test_a_pattern_in_which_interpolation_disturbs() -> None:
    profile = delta_profile(np.tile(PAIRS, (24, 1)))
    assert [smallest_period(profile, delta) for delta in (0.25, 0.251, 0.3, 0.4)] == [4, 5, 5, 5]
    assert np.all(exact_window(PAIRS, 0) == Fraction(1, 4))  # the exact average: rho_0 = 0
    for k, value, literal in ((1, Fraction(4, 729), Fraction(1, 6561)), (2, Fraction(1, 256), Fraction(1, 4096))):
        w = exact_window(PAIRS, k)
        rest = w @ w.T - Fraction(1, 4 + k)
        assert np.any(rest != 0)
        assert np.all(rest @ rest == value * rest)  # the only eigenvalue besides 1 and 0
        assert (
            rho(PAIRS, k) == pytest.approx(float(value)) == pytest.approx(second_eigenvalue(np.array(PAIRS), k, False))
        )
        eigenvalues = np.sort(np.abs(np.linalg.eigvals(np.linalg.matrix_power(window_product(PAIRS, k), 2))))
        assert eigenvalues[-2] == pytest.approx(float(literal))
    values = [rho(PAIRS, k) for k in (0, 1, 2, 5, 20, 100)]
    assert values[0] == pytest.approx(0, abs=1e-9)
    assert values[1:3] == pytest.approx([0.00549, 0.00391], abs=5e-6)
    assert np.all(np.diff(values[1:]) < 0)
    assert values[-1] < 1e-6
    quoted("4/729 = 0.00549", "1/256 = 0.00391", "1/6561, 1/4096", r"$0.25 < \delta \le 0.4$ the smallest window")


def test_without_the_repeated_round_the_window_is_shorter() -> None:
    """Then rho_k falls. rho_0 is 1, and yet all four clients average exactly every four rounds."""
    rounds = PAIRS[:4]
    profile = delta_profile(np.tile(rounds, (30, 1)))
    assert [smallest_period(profile, delta) for delta in (0.1, 0.4, 0.5, 0.51)] == [2, 2, 2, None]
    for half in (rounds[:2], rounds[2:]):
        assert [rho(half, k) for k in (0, 1, 2)] == pytest.approx([1, 4 / 9, 1 / 4])
        assert np.all(np.diff([rho(half, k) for k in range(30)]) < 0)
    assert np.all(exact_window(rounds, 0) == Fraction(1, 4))
    quoted("1, 0.444, 0.250")


def test_definitions() -> None:
    residues = {t % 3 for t in range(30)}
    assert 3 not in residues
    assert 0 in residues
    assert sum(t % 100 <= 50 for t in range(100)) == 51
    optima = np.array([0.0, 100.0])
    assert (optima**2).sum() / 2 == 5000
    assert (optima**2 / 2).mean() == 2500
    quoted("51 and 49", "2500, not 5000")


def test_dirichlet_heterogeneity() -> None:
    rng = np.random.default_rng(0)
    for alpha, text in ((0.05, "0.060"), (0.1, "0.045"), (1.0, "0.008")):
        variance = 0.09 / (10 * alpha + 1)
        assert f"{variance:.3f}" == text
        assert rng.dirichlet([alpha] * 10, 20000)[:, 0].var() == pytest.approx(variance, rel=0.05)
        quoted(text)


def test_sentences_that_the_tables_do_not_bear_out() -> None:
    def table2(algorithm: str, dataset: str, dynamics: str, **k: float) -> float:
        found = look_up("table2", algorithm=algorithm, dataset=dataset, dynamics=dynamics, **k)
        assert found is not None
        return found.values["test"].mean

    def rounds(algorithm: str, dataset: str, target: float, **k: float) -> float:
        found = look_up("table7", algorithm=algorithm, dataset=dataset, target=target, **k)
        assert found is not None
        return found.values["rounds"].mean

    behind = [
        table2("fedavg_known", dataset, "sine") - table2("fedswe", dataset, "sine", k=k)
        for dataset, k in (("cifar10", 0.0), ("cinic10", 0.0), ("cifar10", 100.0))
    ]
    assert behind == pytest.approx([3.8, 1.6, 3.1])
    quoted("3.8 points", "1.6 on CINIC-10", "3.1 on CIFAR-10 with $k = 100$")
    slower = [
        rounds("fedswe", d, last, k=0.0) / rounds("fedavg_known", d, last)
        for d, last in (("svhn", 80), ("cifar10", 60))
    ]
    assert slower == pytest.approx([2.6, 2.2], abs=0.05)
    quoted("2.6 and 2.2 times the rounds")
    for dataset in ("svhn", "cifar10", "cinic10"):
        levels = [table2("fedavg_known", dataset, dynamics) for dynamics in ("stationary", "staircase", "sine")]
        assert max(levels) == levels[2]
        quoted(", ".join(f"{level:.1f}" for level in levels))
    assert [rounds("fedswe", "cifar10", 30, k=0.0), rounds("fedavg", "cifar10", 30)] == [60, 20]
    assert [rounds("fedswe", "cinic10", 30, k=0.0), rounds("fedavg", "cinic10", 30)] == [120, 40]
    quoted("60 rounds where FedAvg needs 20 on CIFAR-10, and 120 where FedAvg needs 40")


def test_clarifications() -> None:
    optima = np.array([0.0, 100.0])
    for prob, active, everyone in (([0.1, 0.9], "93.96", "90.00"), ([1.0, 0.2], "10.00", "16.67")):
        assert f"{float((fedavg_active_limit([prob], 0.1).server @ optima)[0]):.2f}" == active
        assert f"{float((fedavg_all_limit([prob], 0.1).server @ optima)[0]):.2f}" == everyone
        assert abs(fedavg_bias_map([prob[0]], [prob[1]])[0, 0] - abs(float(active) - 50)) < 0.01
        quoted(active, everyone)
    assert math.log10(8 * 200 ** (4 * 100 + 2)) == pytest.approx(925.9, abs=0.05)
    assert log_gap(100, 100, 0.1, 100) / math.log(10) == pytest.approx(-918.9, abs=0.05)
    quoted("10^{926}", "10^{-918.9}")
    assert np.array_equal(mixing_matrix([0, 0, 0], 0), np.eye(3))
    assert fedswe_trajectory([[1, 0], [0, 0]], optima, 0.1, 0, start=5.0)[0] == pytest.approx([5, 4.5, 4.5])
    quoted("agrees with $W^{(t)} = I$")


def test_availability_that_depends_on_the_noise() -> None:
    """F = x^2/2, noise of +1 or -1, there when it is +1: unbiased gradients, p = 0.5, and no step away from -1."""
    x, eta, last = Fraction(-1), Fraction(1, 512), -1
    for t, noise in enumerate(np.random.default_rng(0).choice([-1, 1], 200).tolist()):
        if noise == 1:
            x, last = x - eta * (t - last) * (x + noise), t
        assert x == -1
    quoted("$x^0 = -1$ and gradient noise of $\\pm1$")


def exact_errors(
    trace: Sequence[Sequence[int]], noise: Sequence[Sequence[int]], optima: tuple[int, ...], start: int, k: int,
    rate: Fraction,
) -> list[dict[str, Fraction]]:  # fmt: skip
    """Algorithm 1 on F_i = (x-u_i)^2/2 with s = 1, without rounding: the errors of the analysis before every round."""
    clients, total = len(optima), len(optima) + k
    server, x, last = Fraction(start), [Fraction(start)] * clients, [-1] * clients
    rows = []
    for t, (here, xi) in enumerate(zip(trace, noise, strict=True)):
        z = [a - rate * (t - tau - 1) * (a - u) for a, u, tau in zip(x, optima, last, strict=True)]
        mean_x, mean_z = ((sum(models) + k * server) / total for models in (x, z))
        optimum = Fraction(sum(optima), clients)
        rows.append(
            {
                "x - z": sum(((a - b) ** 2 for a, b in zip(x, z, strict=True)), Fraction(0)) / total,
                "z apart": (sum((b - mean_z) ** 2 for b in z) + k * (server - mean_z) ** 2) / total,
                "x apart": (sum((a - mean_x) ** 2 for a in x) + k * (server - mean_x) ** 2) / total,
                "gradient at z": (mean_z - optimum) ** 2,
                "gradient at x": (mean_x - optimum) ** 2,
            }
        )
        active = [i for i in range(clients) if here[i]]
        reports = [x[i] - rate * (t - last[i]) * (x[i] - optima[i] + xi[i]) for i in active]
        server = (sum(reports) + k * server) / (len(active) + k)
        for i in active:
            x[i], last[i] = server, t
    return rows


RATE = Fraction(1, 512)  # eta_l, with eta_g = 1


def within_the_rates(delta: float, period: int) -> bool:
    """RATE is admitted for two clients and k = 2 when the window mixes perfectly, rho_k = 0."""
    limits = theorem_rate_limits(rho=0, delta=delta, period=period, clients=2, k=2, steps=1, smoothness=1, beta=0)
    return min(limits.local, limits.product) >= RATE


def test_distances_are_not_of_the_order_of_the_gradient() -> None:
    """Everybody always there, noise of +1 or -1: all 64 sequences of three rounds."""
    always, k = [[1, 1]] * 3, 2
    assert rho(always[:1], k) == pytest.approx(0, abs=1e-12)
    assert within_the_rates(delta=1, period=1)
    gradients = []  # of every sequence, the mean over rounds
    for signs in itertools.product([-1, 1], repeat=6):
        noise = [signs[:2], signs[2:4], signs[4:]]
        rows = exact_errors(always, noise, optima=(-1, 1), start=1, k=k, rate=RATE)
        for row in rows:
            assert row["x - z"] == row["z apart"] == row["x apart"] == 0
            assert row["gradient at z"] == row["gradient at x"] > 0
        gradients.append(sum(row["gradient at z"] for row in rows) / 3)
    assert f"{float(sum(gradients) / len(gradients)):.3f}" == "0.998"
    quoted("all three distances are 0 in every round, and the mean squared gradient is 0.998")


def test_nor_is_the_gradient_of_the_order_of_the_distances() -> None:
    """Both clients in even rounds, nobody in odd ones, from the minimiser, without noise."""
    rounds, k = 12, 2
    trace = [[1, 1], [0, 0]] * (rounds // 2)
    profile = delta_profile(trace)
    assert smallest_period(profile, 0.5) == 2
    assert rho(trace[:2], k) == pytest.approx(0, abs=1e-12)
    assert within_the_rates(delta=0.5, period=2)
    rows = exact_errors(trace, [[0, 0]] * rounds, optima=(-1, 1), start=0, k=k, rate=RATE)
    for t, row in enumerate(rows):
        assert row["x apart"] == row["gradient at z"] == row["gradient at x"] == 0
        assert row["x - z"] == row["z apart"] == (RATE**2 / 2 if t > 0 and t % 2 == 0 else 0)
    quoted(r"are $\eta^2/2$ in every even round after the first")


def test_the_sums_remain_as_upper_bounds() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        trace, noise = rng.integers(0, 2, (8, 3)).tolist(), rng.integers(-2, 3, (8, 3)).tolist()
        for row in exact_errors(trace, noise, optima=(-1, 0, 4), start=2, k=1, rate=Fraction(1, 4)):
            assert row["x apart"] <= 2 * row["x - z"] + 2 * row["z apart"]
            assert row["gradient at x"] <= 2 * row["x - z"] + 2 * row["gradient at z"]  # L = 1


def test_the_quantifier_of_the_assumption() -> None:
    profile = delta_profile(np.full((60, 3), 0.5))
    assert profile == pytest.approx(0.5)  # whatever the period
    assert [smallest_period(profile, delta) for delta in (0.1, 0.5)] == [1, 1]
    assert [smallest_period(profile, delta) for delta in (0.51, 0.9, 1.0)] == [None, None, None]
    turns = delta_profile(np.tile([[1.0, 0.0], [0.0, 1.0]], (30, 1)))
    assert [smallest_period(turns, delta) for delta in (0.1, 0.5, 0.51, 0.9)] == [2, 2, None, None]
    almost = np.ones((60, 3))
    assert smallest_period(delta_profile(almost), 1.0) == 1
    almost[0, 2] = 0.99  # one entry below 1 is enough
    assert smallest_period(delta_profile(almost), 1.0) is None
    rng = np.random.default_rng(0)
    for _ in range(50):
        table = rng.random((24, 3)) * (rng.random((24, 3)) < 0.6)
        found = [smallest_period(delta_profile(table), delta) for delta in np.linspace(0.01, 1, 100)]
        reached = [period for period in found if period is not None]
        assert reached == sorted(reached)  # a smaller delta has a window too, and no longer one
        assert found == reached + [None] * (len(found) - len(reached))
        assert found[-1] is None
        assert delta_profile(table).max() <= table.max() + 1e-9
    quoted("$P_\\delta = 1$ for $\\delta \\le 0.5$ and no $P$ at all for $\\delta > 0.5$", "0.9 or 1")


def test_which_term_dominates() -> None:
    def terms(rounds: int, sigma: float, k: float = 10, **availability: float) -> tuple[float, float, float]:
        present = {"delta": 0.2, "delta_max": 0.9, "period": 4, "rho": 0.5} | availability
        bound = corollary_bound(
            steps=1, rounds=rounds, initial_gap=1, smoothness=1, sigma_squared=sigma**2, zeta=1, clients=10, k=k,
            delta=present["delta"], delta_max=present["delta_max"], period=int(present["period"]), rho=present["rho"],
        )  # fmt: skip
        return bound.initial_gap, bound.noise, bound.mixing

    first, second, third = np.transpose([terms(rounds, 1.0) for rounds in (10**3, 10**6, 10**12)])
    assert second / first == pytest.approx(second[0] / first[0])  # whatever T
    assert third / second == pytest.approx(third[0] / second[0] / np.sqrt([1, 1e3, 1e9]))
    assert terms(10**12, 0.0)[1] == 0 < terms(10**12, 0.0)[2] < terms(10**12, 0.0)[0]
    assert rho(np.ones((1, 10)), 10) == pytest.approx(0, abs=1e-12)
    always = {"delta": 1.0, "delta_max": 1.0, "period": 1, "rho": 0.0}
    assert terms(1000, 1.0, **always)[2] == pytest.approx(2 * (20 / 10) * (10 / 1000) * 2) == pytest.approx(0.08)
    quoted("0.08 for $m = k = 10$")


@pytest.mark.parametrize("a", [Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)])
def test_the_counterexample_with_noise(a: Fraction) -> None:
    """m = 2, u = +1 and -1, s = 1: mean and variance of the server model after a visit, without rounding."""
    distance, variance = Fraction(-1), Fraction(0)
    for visit in range(80):
        echo = 1 if visit == 0 else 2
        distance, variance = (1 - echo * a) * distance, (1 - echo * a) ** 2 * variance + (echo * a) ** 2
    limit = a / (1 - a)
    assert (1 - 2 * a) ** 2 * limit + 4 * a**2 == limit
    assert float(variance) == pytest.approx(float(limit))
    error = (1 + distance) ** 2 + variance  # of the gradient at the server model; the formula has 1
    assert float(error) == pytest.approx(1 + float(limit))
    assert error > 1
    if a == Fraction(1, 10):
        assert f"{float(error):.2f}" == "1.11"
    quoted(r"a\sigma^2/(1-a)", "the left-hand side is 1.11")


def test_the_counterexample_needs_a_step_below_1() -> None:
    """Algorithm 1 on u = +1 and -1 without noise, and the variance with it."""
    trace = np.tile([[1, 0], [0, 1]], (200, 1))
    error = {a: fedswe_trajectory(trace, [1.0, -1.0], a, 0, start=0.0)[0] ** 2 for a in (0.1, 0.9, 1.0, 1.01)}
    for a in (0.1, 0.9):
        assert error[a][-4:] == pytest.approx(1)
    assert error[1.0][-3::2] == pytest.approx([4, 0])  # of client 2: u - 1 and u + 1 in turns
    assert error[1.01].max() > 1e3
    for a in (Fraction(1), Fraction(101, 100)):
        variance = [Fraction(0)]
        for _ in range(100):
            variance.append((1 - 2 * a) ** 2 * variance[-1] + 4 * a**2)
        assert np.all(np.diff(variance) >= 4)
    quoted("for $0 < a < 1$ only")


def group_variance(rate: float, p: float = 0.5, ages: int = 60) -> float:
    """The limit of the variance of the server model of two clients with the optima -2 and 2, echoes 2, 4, 6, ...

    By the ages of both clients: the expectations of 1, x, y, x^2, xy, y^2. An age above ``ages`` has chance 2^-60.
    """
    kept = 1 - 2 * rate * np.arange(ages + 1.0)
    shift = 2 * (1 - kept)  # a client's report is kept x - shift or kept y + shift
    state = np.zeros((6, ages + 1, ages + 1))
    state[0, 1, 1] = 1.0
    value, before = 0.0, -1.0
    while abs(value - before) > 1e-13:
        one, x, y, xx, xy, yy = state
        a, b, c, d = kept[:, None], kept[None, :], -shift[:, None], shift[None, :]
        first, second = a * x + c * one, b * y + d * one
        squares = a**2 * xx + 2 * a * c * x + c**2 * one, b**2 * yy + 2 * b * d * y + d**2 * one
        cross = a * b * xy + a * d * x + b * c * y + c * d * one
        mean, square = (first + second) / 2, (squares[0] + 2 * cross + squares[1]) / 4
        after = np.zeros_like(state)
        after[:, 1, 1] += p**2 * np.array([f.sum() for f in (one, mean, mean, square, square, square)])
        alone = np.stack([f.sum(0) for f in (one, first, y, squares[0], a * xy + c * y, yy)])
        after[:, 1, 1:] += p * (1 - p) * alone[:, :-1]
        alone = np.stack([f.sum(1) for f in (one, x, second, xx, b * xy + d * x, squares[1])])
        after[:, 1:, 1] += p * (1 - p) * alone[:, :-1]
        after[:, 1:, 1:] += (1 - p) ** 2 * state[:, :-1, :-1]
        visit = p**2 * square.sum() + p * (1 - p) * (squares[0].sum() + squares[1].sum())
        state, before, value = after, value, float(visit / (1 - (1 - p) ** 2))
    return value


def test_the_counterexample_with_probabilities_below_1() -> None:
    for p in (0.1, 0.5, 1.0):  # one client in each group: the echo is 2G, G geometric
        visits = np.arange(1, 3000)
        chance = p * (1 - p) ** (visits - 1.0)
        edge = p / (2 - p)
        for a, shrinks in ((0.99 * edge, True), (1.01 * edge, False)):
            assert (chance @ (1 - 2 * a * visits) ** 2 < 1) == shrinks
    quoted("for $a < p/(2-p)$")
    for a, text in ((0.1, "5.15 for $a = 0.1$"), (0.005, "4.007 for $a = 0.005$")):
        # A group in its own rounds is FedSWE with k = 0 and twice the rate; (0 - 4)^2 is twice the variance 8.
        group = NoisyQuadratics(2, 0.5, 0, a, 2, 1, spread=math.sqrt(8))
        spread = expected_errors(group, 20000).server_gradient
        assert spread == pytest.approx(group_variance(a), rel=1e-6)
        assert f"{4 + spread:.{len(text.split()[0]) - 2}f}" == text.split()[0]
        quoted(text)
    assert group_variance(0.001) < 1e-3
