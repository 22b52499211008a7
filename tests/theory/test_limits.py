"""Exact limits of FedAvg and FedSWE on quadratics, against enumeration, simulation and the engines."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
import torch

from fedswe.core.local import Local
from fedswe.tasks.quadratic import QuadraticProblem
from fedswe.theory.limits import (
    ExpectedLimit,
    echo_gain,
    fedavg_active_limit,
    fedavg_all_limit,
    fedavg_bias_map,
    fedswe_limit,
    visit_step,
)
from tests.algorithms import ALGORITHMS
from tests.problems import ENGINES

FloatArray = npt.NDArray[np.float64]


def sets(prob: FloatArray) -> list[tuple[FloatArray, float]]:
    """Every set of available clients as a 0/1 vector, with its probability."""
    flags = [np.array(row, dtype=float) for row in itertools.product([0, 1], repeat=len(prob))]
    return [(row, float(np.where(row, prob, 1 - prob).prod())) for row in flags]


def some_probabilities(rng: np.random.Generator, rounds: int, clients: int) -> FloatArray:
    """A table with zeros and ones in it, every client available in some round."""
    table = rng.random((rounds, clients)) * (rng.random((rounds, clients)) < 0.7)
    table[rng.random((rounds, clients)) < 0.1] = 1.0
    table[rng.integers(rounds), ~table.any(axis=0)] = 0.5
    return table


# FedAvg ---------------------------------------------------------------------------------------------------
def test_two_clients_in_closed_form() -> None:
    for p1, p2 in np.random.default_rng(2).random((20, 2)):
        weights = np.array([p1 * (1 - p2 / 2), p2 * (1 - p1 / 2)])
        limit = fedavg_active_limit([[p1, p2]], 0.2)
        assert limit.server[0] == pytest.approx(weights / weights.sum())
        assert limit.client_mean[0] == pytest.approx(limit.server[0])  # x^t is sent before A^t has any effect


def expectation_by_enumeration(table: FloatArray, step: float, active: bool, rounds: int) -> ExpectedLimit:
    """E of the server model and the client mean after many periods: the mean over all sets, round by round."""
    clients = table.shape[1]
    server, held = np.zeros(clients), np.zeros((clients, clients))
    result = ExpectedLimit(np.empty_like(table), np.empty_like(table))
    for t in range(rounds * len(table)):
        prob, after = table[t % len(table)], np.zeros(clients)
        for here, chance in sets(prob):
            divisor = max(here.sum(), 1) if active else clients
            after += chance * (server + step * (here - here.sum() * server) / divisor)
        held = (1 - prob)[:, None] * held + prob[:, None] * server
        server = after
        result.server[t % len(table)], result.client_mean[t % len(table)] = server, held.mean(axis=0)
    return result


@pytest.mark.parametrize(("limit", "active"), [(fedavg_active_limit, True), (fedavg_all_limit, False)])
def test_fedavgs_cycle_of_means(limit: Callable[[FloatArray, float], ExpectedLimit], active: bool) -> None:
    rng = np.random.default_rng(3)
    for _ in range(5):
        table = some_probabilities(rng, int(rng.integers(1, 5)), int(rng.integers(1, 5)))
        table = np.where(table > 0, np.maximum(table, 0.2), 0)  # rare clients need more periods than are run here
        step = rng.uniform(0.2, 1.2)
        expected, found = expectation_by_enumeration(table, step, active, 300), limit(table, step)
        assert found.server == pytest.approx(expected.server, abs=1e-9)
        assert found.client_mean == pytest.approx(expected.client_mean, abs=1e-9)
        assert found.server.sum(axis=1) == pytest.approx(1)


def test_a_client_that_never_comes_has_no_weight() -> None:
    limit = fedavg_active_limit([[0.5, 0.0, 0.5]], 0.1)
    assert limit.server[0] == pytest.approx([0.5, 0, 0.5])
    assert np.isnan(limit.client_mean).all()


def test_the_heat_map_of_figure_2() -> None:
    grid = np.linspace(0, 1, 11)
    distance = fedavg_bias_map(grid, grid)
    assert np.isnan(distance[0, 0])
    assert np.isnan(distance).sum() == 1
    assert distance[0, 1:] == pytest.approx(50)
    assert distance[1:, 0] == pytest.approx(50)
    assert np.diag(distance)[1:] == pytest.approx(0, abs=1e-12)
    assert distance[1, 9] == pytest.approx(43.956, abs=1e-3)
    assert distance == pytest.approx(distance.T, nan_ok=True)
    assert fedavg_bias_map([1.0], [0.2], (-1.0, 1.0))[0, 0] == pytest.approx(0.8)  # 2 (0.9 - 0.5)


# FedSWE ---------------------------------------------------------------------------------------------------
def test_fedswes_cycle_of_means_by_simulation() -> None:
    """Eight comparisons, each within 4.5 standard errors over independent runs (a false alarm: 1 in 18000)."""
    rng = np.random.default_rng(4)
    runs, clients = 3000, 4
    for k, period in ((0.0, 1), (2.5, 3)):
        table = np.clip(some_probabilities(rng, period, clients), 0.2, 1)
        optima, step = rng.normal(0, 10, clients), 0.08
        limit = fedswe_limit(table, step, k)
        server, models, echo = np.zeros(runs), np.zeros((runs, clients)), np.ones((runs, clients))
        sums = np.zeros((2, period, runs))
        for t in range(200 * period):
            here = rng.random((runs, clients)) < table[t % period]
            count = here.sum(axis=1)
            echoed = models + step * echo * (optima - models)
            merged = ((here * echoed).sum(axis=1) + k * server) / np.maximum(count + k, 1e-9)
            server = np.where(count + k > 0, merged, server)
            models, echo = np.where(here, server[:, None], models), np.where(here, 1, echo + 1)
            if t >= 100 * period:
                sums[:, t % period] += server, models.mean(axis=1)
        for found, exact in zip(sums / 100, (limit.server @ optima, limit.client_mean @ optima), strict=True):
            error = found.std(axis=1, ddof=1) / math.sqrt(runs)
            assert np.all(error < 0.2)
            assert np.all(np.abs(found.mean(axis=1) - exact) < 4.5 * error)


def test_fedswes_client_mean_is_unbiased_for_every_availability_and_k() -> None:
    rng = np.random.default_rng(5)
    for _ in range(30):
        table = some_probabilities(rng, int(rng.integers(1, 6)), int(rng.integers(1, 7)))
        limit = fedswe_limit(table, 0.02, float(rng.choice([0, 0.5, 3, 100])))
        assert limit.client_mean.mean(axis=0) == pytest.approx(1 / table.shape[1], abs=1e-10)
        assert limit.server.sum(axis=1) == pytest.approx(1)


def test_fedswes_server_model_is_biased_less_for_smaller_steps_and_larger_k() -> None:
    bias = {
        (step, k): fedswe_limit([[0.1, 0.9]], step, k).server[0, 1] - 0.5
        for step in (0.01, 0.1)
        for k in (0.0, 1.0, 1000.0)
    }
    assert bias[0.1, 0.0] > bias[0.1, 1.0] > bias[0.1, 1000.0] > 0
    assert bias[0.01, 0.0] < bias[0.1, 0.0]
    assert bias[0.01, 1000.0] < 1e-4


def test_the_echo_gain_decides_mean_square_contraction() -> None:
    echo = np.arange(1, 20000)
    for p, step in ((0.1, 0.1), (0.1, 0.11), (0.5, 0.6), (0.5, 0.7), (1.0, 1.9), (1.0, 2.1)):
        chance = p * (1 - p) ** (echo - 1)
        contracts = (chance * (1 - step * echo) ** 2).sum() < 1
        assert echo_gain([[p]], step) == pytest.approx(step * (2 - p) / p)
        assert (echo_gain([[p]], step) < 2) == contracts
    assert echo_gain([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]], 0.2) == pytest.approx(0.6)


# the engines ----------------------------------------------------------------------------------------------
class Repeated:
    """A 0/1 table, repeated for ever."""

    rounds = None

    def __init__(self, table: FloatArray) -> None:
        self.table, self.m = table, table.shape[1]

    def prob(self, t: int) -> FloatArray:
        return np.asarray(self.table[t % len(self.table)])

    def sample(self, t: int) -> npt.NDArray[np.bool_]:
        return self.prob(t) > 0


def problem(optima: FloatArray) -> QuadraticProblem:
    centers = torch.as_tensor(optima)[:, None]
    return QuadraticProblem(0, centers, torch.ones(len(optima), 1).double(), torch.zeros(1).double(), 0.0)


@pytest.mark.parametrize("engine", ["loop", "batched"])
def test_the_engines_reach_the_limits_of_a_repeated_trace(engine: str) -> None:
    rng = np.random.default_rng(6)
    table = (rng.random((5, 4)) < 0.5).astype(float)
    table[rng.integers(5), ~table.any(axis=0)] = 1.0
    optima, local = rng.normal(0, 10, 4), Local(steps=3, lr=0.05, schedule="constant")
    step, k = visit_step(0.05, 3, lr=0.9), 1.5
    for algorithm, limit in (
        (ALGORITHMS["fedavg"](lr=0.9), fedavg_active_limit(table, step)),
        (ALGORITHMS["fedavg_all"](lr=0.9), fedavg_all_limit(table, step)),
        (ALGORITHMS["fedswe"](lr=0.9, k=k), fedswe_limit(table, step, k)),
    ):
        run = ENGINES[engine](algorithm, problem(optima), Repeated(table), local, 0)
        for _ in range(120):
            for t in range(5):
                run.step()
                last = (float(run.server_model()[0]), float(run.client_mean()[0]), t)
        assert last == pytest.approx((limit.server[4] @ optima, limit.client_mean[4] @ optima, 4), abs=1e-8)
