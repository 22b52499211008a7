"""The exact speed-up in clients and local steps."""

import math

import pytest

from fedswe.theory.mixing import rho_homogeneous
from fedswe.theory.moments import mean_gradient, rounds_needed
from fedswe.theory.rates import corollary_rounds

NOISY = {"sigma": 3.0, "spread": 1.0}


def test_the_rounds_are_the_first_that_reach_the_target() -> None:
    given = {"clients": 8, "steps": 2, "p": 0.5, "k": 8, **NOISY}
    rounds = rounds_needed(0.03, **given)
    assert mean_gradient(int(rounds), **given) <= 0.03 < mean_gradient(int(rounds) - 1, **given)


def test_everybody_there_is_gradient_descent_with_averaged_noise() -> None:
    """p = 1, k = 0, s = 1: the mean over T of a^t + v(1 - a^t)/(1 - a), a = (1 - eta)^2, v = eta^2 sigma^2/m."""
    m, rounds, sigma = 4, 50, 2.0
    eta = math.sqrt(m) / math.sqrt(rounds)
    a, v = (1 - eta) ** 2, eta**2 * sigma**2 / m
    value = sum(a**t + v * (1 - a**t) / (1 - a) for t in range(rounds)) / rounds
    found = mean_gradient(rounds, clients=m, steps=1, p=1.0, k=0, sigma=sigma, spread=1.0)
    assert found == pytest.approx(value)


@pytest.mark.parametrize("p", [1.0, 0.5])
def test_twice_the_clients_or_the_steps_need_half_the_rounds_while_noise_decides(p: float) -> None:
    """Far from the limit; and no longer when s m is of the size of the rounds."""
    few = rounds_needed(0.003, clients=4, steps=2, p=p, k=4, **NOISY)
    assert few / rounds_needed(0.003, clients=8, steps=2, p=p, k=8, **NOISY) == pytest.approx(2, rel=0.05)
    assert few / rounds_needed(0.003, clients=4, steps=4, p=p, k=4, **NOISY) == pytest.approx(2, rel=0.05)
    many = rounds_needed(0.03, clients=256, steps=2, p=p, k=256, **NOISY)
    assert many / rounds_needed(0.03, clients=512, steps=2, p=p, k=512, **NOISY) < 1.2


def test_the_theorem_admits_the_rates_much_later() -> None:
    """T of the corollary and T of the experiment."""

    def admitted(clients: int, p: float) -> int:
        mixing = rho_homogeneous(clients, p, clients)
        return corollary_rounds(rho=mixing, delta=p, period=1, clients=clients, k=clients, steps=2, beta=0)

    def needed(clients: int, p: float) -> float:
        return rounds_needed(0.003, clients=clients, steps=2, p=p, k=clients, **NOISY)

    assert admitted(64, 1.0) > 100 * needed(64, 1.0)
    assert [needed(m, p) >= admitted(m, p) for p in (1.0, 0.5, 0.1) for m in (2, 4)] == [True, False] * 2 + [False] * 2


def test_an_unreachable_target_is_infinite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedswe.theory.moments.MOST_ROUNDS", 64)
    assert rounds_needed(1e-6, clients=4, steps=1, p=0.5, k=4, **NOISY) == math.inf
