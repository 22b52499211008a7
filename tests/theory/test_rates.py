"""Learning-rate conditions and the bounds of the theorem and the corollary."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

from fedswe.theory.rates import corollary_bound, corollary_rates, corollary_rounds, theorem_rate_limits
from tests.theory.statements import theorem_bound

Settings = dict[str, Any]


def random_availability(rng: np.random.Generator) -> Settings:
    delta = rng.uniform(0.05, 1.0)
    return {
        "rho": rng.uniform(0, 0.99), "delta": delta, "period": int(rng.integers(1, 30)),
        "clients": int(rng.integers(1, 200)), "k": float(rng.choice([0, 0.5, 3, 100])),
    }  # fmt: skip


def random_problem(rng: np.random.Generator) -> Settings:
    return {
        "steps": int(rng.integers(1, 20)), "initial_gap": rng.uniform(0, 9), "smoothness": rng.uniform(0.1, 9),
        "sigma_squared": rng.uniform(0, 4), "zeta": rng.uniform(0, 4),
    }  # fmt: skip


def test_the_theorems_conditions_by_hand() -> None:
    # delta = 1/2, P = 3: (P-1)^2 delta^2 + 1 = 2; beta = 2: beta^2 + 1 = 5; M = 4 + 12 = 16.
    limits = theorem_rate_limits(rho=0.5, delta=0.5, period=3, clients=4, k=12, steps=2, smoothness=3, beta=2)
    assert limits.product == pytest.approx(0.5 * 0.5 * 2 / (96 * 2 * 3 * math.sqrt(3 * 16 * 2 * 5)))
    assert limits.local == pytest.approx(0.5 / (216 * 2 * 3 * math.sqrt(2 * 5)))


def test_the_theorems_conditions_imply_those_of_both_lemmas() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        steps, smoothness = int(rng.integers(1, 20)), rng.uniform(0.1, 9)
        limits = theorem_rate_limits(
            **random_availability(rng), steps=steps, smoothness=smoothness, beta=rng.uniform(0, 5)
        )
        assert limits.product <= 1 / (8 * steps * smoothness)  # of the descent lemma
        assert limits.local <= 1 / (4 * steps * smoothness)  # of several local steps


def test_the_theorems_terms_by_hand() -> None:
    # eta = 0.02 * 5 = 0.1, M/m = 3/2, (P-1)^2 + 1/delta^2 = 4 + 4 = 8, 1 + 1/(1-rho)^2 = 5.
    bound = theorem_bound(
        local_lr=0.02, lr=5, steps=2, rounds=50, initial_gap=7, smoothness=3, sigma_squared=0.4, zeta=2, delta=0.5,
        delta_max=0.9, period=3, clients=4, k=2, rho=0.5,
    )  # fmt: skip
    assert bound.initial_gap == pytest.approx(1.5 * 7 / (0.1 * 2 * 50))
    assert bound.noise == pytest.approx(0.9 * 0.1 * 3 * 0.4 / 4 * 8)
    assert bound.mixing == pytest.approx(1.5 * 0.01 * 4 * 9 * 3 * (0.4 + 4) * 8 * 5)
    assert bound.total == pytest.approx(bound.initial_gap + bound.noise + bound.mixing)


def test_the_corollary_is_the_theorem_at_its_rates() -> None:
    rng = np.random.default_rng(1)
    for _ in range(100):
        availability, problem = random_availability(rng), random_problem(rng)
        availability["delta_max"] = rng.uniform(availability["delta"], 1)
        rounds = int(rng.integers(1, 10**6))
        rates = corollary_rates(
            rounds=rounds, steps=problem["steps"], smoothness=problem["smoothness"], delta=availability["delta"],
            clients=availability["clients"],
        )  # fmt: skip
        theorem = theorem_bound(local_lr=rates.local_lr, lr=rates.lr, rounds=rounds, **availability, **problem)
        corollary = corollary_bound(rounds=rounds, **availability, **problem)
        for term in ("initial_gap", "noise", "mixing", "total"):
            assert getattr(corollary, term) == pytest.approx(getattr(theorem, term), rel=1e-12)


def test_the_local_rate_can_decide_the_corollarys_rounds() -> None:
    """eta_l = 1/sqrt(T) <= 0.1/216 asks for 2160^2 rounds, eta_l eta_g for 0.2 (960)^2 only."""
    rounds = corollary_rounds(rho=0, delta=0.1, period=1, clients=2, k=0, steps=1, beta=0)
    assert rounds == 2160**2


def test_the_corollarys_rounds_are_whole_where_the_condition_is_an_equality() -> None:
    """(96 s)^2 m / (s (1-rho)^2) at delta = P = 1, k = 0: a whole number, not the next one."""
    for clients, steps, part in itertools.product((2, 3, 7, 10, 33), (1, 3, 10), (1, 2, 3, 7)):
        rounds = corollary_rounds(rho=1 - 1 / part, delta=1, period=1, clients=clients, k=0, steps=steps, beta=0)
        assert rounds == max(96**2 * part**2 * clients * steps, 216**2)


def test_the_corollarys_rounds_are_the_smallest_that_satisfy_the_conditions() -> None:
    rng = np.random.default_rng(2)
    for _ in range(100):
        availability, smoothness = random_availability(rng), rng.uniform(0.1, 9)
        steps, beta = int(rng.integers(1, 20)), rng.uniform(0, 3)
        limits = theorem_rate_limits(**availability, steps=steps, smoothness=smoothness, beta=beta)
        rounds = corollary_rounds(**availability, steps=steps, beta=beta)
        for number, admitted in ((rounds, True), (int(0.99 * rounds), False)):  # T enters under a square root
            found = corollary_rates(
                rounds=number, steps=steps, smoothness=smoothness, delta=availability["delta"],
                clients=availability["clients"],
            )  # fmt: skip
            slack = 1 + 1e-9 * admitted
            product_fits = found.local_lr * found.lr <= limits.product * slack
            assert (product_fits and found.local_lr <= limits.local * slack) == admitted


def test_k_costs_rounds_and_buys_mixing() -> None:
    """At equal rho a larger k only inflates (M/m); a smaller rho shrinks only the mixing term."""
    problem = random_problem(np.random.default_rng(3))
    common = {"rounds": 1000, "delta": 0.3, "delta_max": 0.8, "period": 4, "clients": 10, **problem}
    none, many = corollary_bound(k=0, rho=0.9, **common), corollary_bound(k=30, rho=0.9, **common)
    assert many.initial_gap == pytest.approx(4 * none.initial_gap)
    assert many.noise == pytest.approx(none.noise)
    assert many.mixing == pytest.approx(4 * none.mixing)
    mixed = corollary_bound(k=30, rho=0.0, **common)
    assert mixed.mixing / many.mixing == pytest.approx(2 / 101)
    assert mixed.noise == many.noise
