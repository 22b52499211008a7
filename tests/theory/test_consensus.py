"""The bounds on the distances of models, against exact expectations on noisy quadratics."""

import dataclasses
import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from fedswe.theory.mixing import rho, rho_homogeneous
from fedswe.theory.moments import NoisyQuadratics
from fedswe.theory.rates import corollary_rates, theorem_rate_limits
from tests.theory.definitions import enumerated_errors
from tests.theory.expected_errors import mean_expected_errors
from tests.theory.statements import (
    approximation_bound,
    client_consensus_bound,
    client_consensus_order,
    consensus_bound,
    theorem_bound,
)

SIMPLE = {
    "local_lr": 0.1, "lr": 2, "steps": 3, "beta": 2, "zeta": 3, "delta": 0.5, "period": 3, "clients": 2, "k": 6,
    "gradient": 7,
}  # fmt: skip
NOISY = {"sigma_squared": 5, "rho": 0.5}


def test_the_terms_by_hand() -> None:
    # eta s = 0.6; V = ((2/2 + 1)^2 + 2/4 + 1)/0.25 = 22; V' = 16 + 9/0.5 + 2 * 0.5/0.25 = 38; M/m = 4.
    terms = approximation_bound(**SIMPLE, smoothness=0.5, consensus=11)
    assert terms.gradient == pytest.approx(3 * 0.36 * 22 * 4 * 5 * 7)
    assert terms.heterogeneity == pytest.approx(3 * 0.36 * 22 * 9 / 4)
    assert terms.consensus == pytest.approx(3 * 0.36 * 22 * 0.25 * 11)
    scale = 0.04 / 0.25
    terms = consensus_bound(**SIMPLE, **NOISY)
    assert terms.noise == pytest.approx(scale * 17 * 3 * 3 * 38 * 5 / 4)
    assert terms.gradient == pytest.approx(scale * 146 * 9 * 9 * 4 * 5 * 7)
    assert terms.heterogeneity == pytest.approx(scale * 146 * 9 * 9 * 9 / 4)
    printed = consensus_bound(**SIMPLE, **NOISY, printed=True)
    assert printed.noise == pytest.approx(scale * 32 * 3 * 3 * 22 * 5 / 4)
    assert printed.gradient == pytest.approx(scale * 24 * 9 * 3 * 22 * 4 * 5 * 7)
    assert printed.heterogeneity == pytest.approx(scale * 24 * 9 * 3 * 22 * 9 / 4)
    assert printed.total == pytest.approx(printed.noise + printed.gradient + printed.heterogeneity)


def test_which_of_the_printed_terms_are_larger() -> None:
    def printed_over_repaired(period: int, delta: float) -> tuple[float, float, float]:
        given = {**SIMPLE, **NOISY, "period": period, "delta": delta}
        printed, repaired = consensus_bound(**given, printed=True), consensus_bound(**given)
        return (
            printed.noise / repaired.noise,
            printed.gradient / repaired.gradient,
            printed.heterogeneity / repaired.heterogeneity,
        )

    for period, delta in itertools.product((1, 2, 3, 4, 6, 20, 100, 1000), (0.01, 0.1, 0.5, 0.9, 1.0)):
        noise, gradient, heterogeneity = printed_over_repaired(period, delta)
        assert noise >= 32 / 68
        assert noise > 1 or period > 1
        if period >= 6 or delta <= 0.5:
            assert gradient > 1
            assert heterogeneity > 1
    assert printed_over_repaired(4, 0.5)[0] == pytest.approx(0.91, abs=5e-3)
    assert printed_over_repaired(100, 0.1)[0] == pytest.approx(0.52, abs=5e-3)
    assert printed_over_repaired(1, 1.0)[1] < 1


def test_the_clients_are_apart_by_both_errors() -> None:
    auxiliary = consensus_bound(**SIMPLE, **NOISY)
    stale = approximation_bound(**SIMPLE, smoothness=0.5, consensus=auxiliary.total)
    both = client_consensus_bound(**SIMPLE, **NOISY, smoothness=0.5)
    assert both.total == pytest.approx(2 * stale.total + 2 * auxiliary.total)


def at_the_limit(problem: NoisyQuadratics, r: float, delta: float, period: int = 1) -> NoisyQuadratics:
    """The problem with the largest rates of the theorem."""
    limits = theorem_rate_limits(
        rho=r, delta=delta, period=period, clients=problem.clients, k=problem.k, steps=problem.steps,
        smoothness=problem.curvature, beta=0,
    )  # fmt: skip
    return dataclasses.replace(problem, local_lr=limits.local, lr=limits.product / limits.local)


def ratios(problem: NoisyQuadratics, errors: SimpleNamespace, r: float, delta: float, period: int = 1) -> list[float]:
    """Exact error over bound: of the approximation, of the z_i, of the x_i. Assumption 4 holds in expectation."""
    m, k, c = problem.clients, problem.k, problem.curvature
    given = {
        "local_lr": problem.local_lr, "lr": problem.lr, "steps": problem.steps, "beta": 0, "delta": delta,
        "zeta": c * problem.spread * np.sqrt(1 - 1 / m), "period": period, "clients": m, "k": k,
        "gradient": (m / (m + k)) ** 2 * errors.auxiliary_gradient,
    }  # fmt: skip
    noisy = {"sigma_squared": problem.sigma**2, "rho": r}
    return [
        errors.approximation
        / approximation_bound(**given, smoothness=c, consensus=errors.regular_auxiliary_consensus).total,
        errors.auxiliary_consensus / consensus_bound(**given, **noisy).total,
        errors.consensus / client_consensus_bound(**given, **noisy, smoothness=c).total,
    ]


def test_no_bound_is_violated_at_the_largest_rates() -> None:
    largest = np.zeros(3)
    for m, p, part, steps, kind in itertools.product((2, 40), (0.05, 0.5, 1.0), (0.0, 1.0), (1, 4), range(3)):
        sigma, spread, start = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.3, 1.0, 5.0))[kind]
        r = rho_homogeneous(m, p, part * m)
        problem = NoisyQuadratics(m, p, part * m, 0.1, 1, steps, 2.5, sigma, spread, start)
        problem = at_the_limit(problem, r, p)
        for rounds in (3, 3000):
            found = ratios(problem, mean_expected_errors(problem, rounds), r, p)
            assert max(found) <= 1
            largest = np.maximum(largest, found)
    assert largest[0] > 0.2  # the constant 3 of the proposition is not far from the truth
    assert (largest > 1e-3).all()


@pytest.mark.parametrize("k", [1, 2])
def test_no_bound_is_violated_when_two_clients_alternate(k: int) -> None:
    """P = 2, delta = 0.4: heterogeneous, and zero in every other round."""
    prob = np.array([[0.8, 0], [0, 0.9], [0.8, 0], [0, 0.9], [0.8, 0]])
    r = rho(prob[:2], k)
    problem = NoisyQuadratics(2, 0.4, k, 0.1, 1, 2, 1.5, 0.5, 1.0, 1.0)
    problem = at_the_limit(problem, r, 0.4, 2)
    exact = enumerated_errors(problem, prob)
    for rounds in range(2, 6):
        mean = {name: float(np.mean([row[name] for row in exact[:rounds]])) for name in exact[0]}
        found = ratios(problem, SimpleNamespace(**mean), r, 0.4, 2)
        assert max(found) <= 1
    assert found[0] > 0.01


def slope(values: list[float], at: list[float]) -> float:
    return float(np.polyfit(np.log(at), np.log(values), 1)[0])


def test_the_proposition_has_the_order_of_the_error() -> None:
    """eta^2, s^2 and 1/delta^2, in the exact error and in the bound."""
    base = NoisyQuadratics(20, 0.1, 20, 1e-5, 1, 1, 1.0, 0.0, 1.0, 0.0)

    def both(problem: NoisyQuadratics) -> tuple[float, float]:
        errors = mean_expected_errors(problem, 4000)
        ratio, _, _ = ratios(problem, errors, rho_homogeneous(20, problem.p, 20), problem.p)
        return errors.approximation, errors.approximation / ratio

    for name, values, order in (
        ("local_lr", [1e-6, 4e-6, 1.6e-5], 2.0),
        ("steps", [1, 4, 16], 2.0),
        ("p", [0.01, 0.02, 0.04], -2.0),
    ):
        exact, bound = zip(*(both(dataclasses.replace(base, **{name: value})) for value in values), strict=True)
        assert slope(list(exact), values) == pytest.approx(order, abs=0.1)
        assert slope(list(bound), values) == pytest.approx(order, abs=0.1)


def test_the_lemma_has_the_order_of_the_error_in_the_rate_and_in_the_steps() -> None:
    """eta^2; s for noise alone, s^2 for heterogeneity alone."""
    for sigma, spread, order in ((1.0, 0.0, 1.0), (0.0, 1.0, 2.0)):
        base = NoisyQuadratics(20, 0.3, 20, 1e-5, 1, 1, 1.0, sigma, spread, 0.0)
        r = rho_homogeneous(20, 0.3, 20)
        for name, values, power in (("local_lr", [1e-6, 4e-6, 1.6e-5], 2.0), ("steps", [1, 4, 16], order)):
            exact, bound = [], []
            for value in values:
                problem = dataclasses.replace(base, **{name: value})
                errors = mean_expected_errors(problem, 200)
                exact.append(errors.auxiliary_consensus)
                bound.append(errors.auxiliary_consensus / ratios(problem, errors, r, 0.3)[1])
            assert slope(exact, values) == pytest.approx(power, abs=0.05)
            assert slope(bound, values) == pytest.approx(power, abs=0.05)


def test_the_corollarys_order_is_that_of_the_theorem_in_units_of_a_distance() -> None:
    """Twice the curvature with half the rate is the same run: distances stay, the theorem's terms grow by four."""
    given = {
        "steps": 4, "rounds": 100, "zeta": 1, "delta": 0.5, "delta_max": 0.5, "period": 1, "clients": 10, "k": 10,
        "rho": 0.3, "lr": 1.0,
    }  # fmt: skip
    one = client_consensus_order(**given, local_lr=0.01, smoothness=1, sigma_squared=1, initial_gap=1)
    given["zeta"] = 2
    two = client_consensus_order(**given, local_lr=0.005, smoothness=2, sigma_squared=4, initial_gap=2)
    theorem = theorem_bound(**given, local_lr=0.005, smoothness=2, sigma_squared=4, initial_gap=2)
    assert one == pytest.approx(two) == pytest.approx(theorem.total / 4)


def test_at_the_corollarys_rates_the_consensus_error_falls_at_least_as_fast_as_its_order() -> None:
    """The order is 1/sqrt(smT) for large T; the exact error of the clients stays below it, and goes to 0."""
    exact, order = [], []
    for rounds in (10**4, 10**5, 10**6):
        m, steps, p = 10, 2, 0.5
        rates = corollary_rates(rounds=rounds, steps=steps, smoothness=1, delta=p, clients=m)
        problem = NoisyQuadratics(m, p, m, rates.local_lr, rates.lr, steps, 1.0, 1.0, 1.0, 1.0)
        exact.append(mean_expected_errors(problem, rounds).consensus)
        terms = client_consensus_order(
            local_lr=rates.local_lr, lr=rates.lr, steps=steps, rounds=rounds, initial_gap=0.5, smoothness=1,
            sigma_squared=1, zeta=1, delta=p, delta_max=p, period=1, clients=m, k=m, rho=rho_homogeneous(m, p, m),
        )  # fmt: skip
        order.append(terms)
        assert exact[-1] <= order[-1]
    assert slope(exact, [1e4, 1e5, 1e6]) <= slope(order, [1e4, 1e5, 1e6]) < -0.45
