"""Exact second moments against Algorithm 1 run along every availability sequence, with the randomness carried along."""

import dataclasses

import numpy as np
import pytest

from fedswe.theory.moments import NoisyQuadratics, mean_errors
from tests.theory.definitions import enumerated_errors
from tests.theory.expected_errors import expected_errors, mean_expected_errors

HARD = NoisyQuadratics(
    clients=3, p=0.4, k=1.5, local_lr=0.3, lr=0.8, steps=2, curvature=0.7, sigma=0.6, spread=1.3, start=2.0
)


@pytest.mark.parametrize(
    "problem",
    [
        HARD,
        dataclasses.replace(HARD, clients=2, k=0.0, steps=1),
        dataclasses.replace(HARD, clients=2, p=1.0, k=4.0),
        dataclasses.replace(HARD, clients=2, p=0.1, sigma=0.0, spread=0.0),
    ],
)
def test_the_moments_are_those_of_algorithm_1_along_every_availability(problem):
    rounds = 3 if problem.clients == 3 else 5
    p = np.full((rounds, problem.clients), problem.p)
    exact = enumerated_errors(problem, p)
    for t in range(rounds + 1):
        found = vars(expected_errors(problem, t))
        assert found == pytest.approx(exact[t], rel=1e-10, abs=1e-13)


def test_a_mean_over_rounds_is_the_mean_of_the_rounds():
    for rounds in (1, 2, 7, 64):
        each = [list(vars(expected_errors(HARD, t)).values()) for t in range(rounds)]
        mean = mean_expected_errors(HARD, rounds)
        np.testing.assert_allclose(list(vars(mean).values()), np.mean(each, axis=0), rtol=1e-9)
        assert dataclasses.asdict(mean_errors(HARD, rounds)).items() <= vars(mean).items()


def test_many_clients_who_are_always_there_are_one_averaged_gradient_step():
    """p = 1, k = 0, s = 1: x ← x - eta(x - mean u) + noise of variance eta^2 sigma^2/m, and nothing else."""
    m, eta, sigma = 500, 0.2, 3.0
    problem = NoisyQuadratics(clients=m, p=1.0, k=0, local_lr=eta, lr=1, steps=1, sigma=sigma, spread=2.0, start=5.0)
    value = 25 + 4 / m
    for t in range(4):
        errors = expected_errors(problem, t)
        assert (errors.mean_gradient, errors.server_gradient) == pytest.approx((value, value), rel=1e-9)
        assert (errors.approximation, errors.consensus) == pytest.approx((0, 0), abs=1e-9)
        value = (1 - eta) ** 2 * value + eta**2 * sigma**2 / m


def test_rates_that_diverge_give_errors_that_are_not_small():
    wild = dataclasses.replace(HARD, p=0.05, lr=8.0)
    assert not mean_errors(wild, 10_000).mean_gradient < 1e9


def test_the_moments_agree_with_simulated_runs():
    """Forty clients: too many sets to enumerate."""
    problem = NoisyQuadratics(clients=40, p=0.3, k=20, local_lr=0.1, lr=1.0, steps=2, sigma=1.0, spread=1.0, start=1.0)
    rng, runs, rounds = np.random.default_rng(0), 4000, 12
    u = rng.normal(size=(runs, 40))
    server, x, echo = np.ones(runs), np.ones((runs, 40)), np.ones((runs, 40))
    for _ in range(rounds):
        here = rng.random((runs, 40)) < 0.3
        local = x.copy()
        for _ in range(2):
            local -= 0.1 * (local - u + rng.normal(size=u.shape))
        report = x + echo * (local - x)
        server = ((report * here).sum(1) + 20 * server) / (here.sum(1) + 20)
        x = np.where(here, server[:, None], x)
        echo = np.where(here, 1.0, echo + 1)
    found = expected_errors(problem, rounds)
    sample = (server - u.mean(1)) ** 2
    assert abs(sample.mean() - found.server_gradient) < 4 * sample.std() / np.sqrt(runs)
    mean = (x.sum(1) + 20 * server) / 60
    sample = (((x - mean[:, None]) ** 2).sum(1) + 20 * (server - mean) ** 2) / 60
    assert abs(sample.mean() - found.consensus) < 4 * sample.std() / np.sqrt(runs)
