"""The counterexample's limit cycle for every k, group size and step, against Algorithm 1 run in full."""

import itertools
import math

import numpy as np
import numpy.typing as npt
import pytest

from fedswe.theory.limits import fedswe_limit, fedswe_trace_limit, fedswe_trajectory, visit_step
from tests.theory.definitions import two_group_cycle, two_group_trace, two_groups_converge

FloatArray = npt.NDArray[np.float64]


def algorithm_1(
    trace: npt.NDArray[np.bool_], optima: list[float], local_lr: float, steps: int, lr: float, k: int
) -> tuple[list[float], list[list[float]]]:
    """Algorithm 1 line by line, on the augmented system: k virtual clients that are always there."""
    clients = len(optima)
    models, last = [0.0] * (clients + k), [-1] * clients
    server, servers, locals_ = 0.0, [], []
    for t, here in enumerate(trace):
        active = [i for i in range(clients) if here[i]]
        reports = []
        for i in active:
            x = models[i]
            for _ in range(steps):
                x = x - local_lr * (x - optima[i])
            reports.append(models[i] - lr * (t - last[i]) * (models[i] - x))
            last[i] = t
        reports += models[clients:]  # virtual clients have gradient zero
        if reports:
            server = sum(reports) / len(reports)
        for i in [*active, *range(clients, clients + k)]:
            models[i] = server
        servers.append(server)
        locals_.append(models[:clients])
    return servers, locals_


def test_reference_values() -> None:
    for local_lr, steps, amplitude in ((0.01, 1, 0.990), (0.1, 10, 39.4)):
        cycle = two_group_cycle([100.0], [-100.0], visit_step(local_lr, steps), k=1)
        assert cycle == pytest.approx([amplitude, -amplitude, 0, 0], rel=2e-3)


def test_equal_groups_in_closed_form() -> None:
    rng = np.random.default_rng(0)
    for h, k, step in itertools.product([1, 3], [0.0, 0.7, 5.0], [0.01, 0.6]):
        first, second = rng.normal(0, 9, (2, h))
        x1, x2, _, optimum = two_group_cycle(first, second, step, k)
        amplitude = step * h * (first.mean() - second.mean()) / (2 * (k + step * h))
        assert [x1 - optimum, x2 - optimum] == pytest.approx([amplitude, -amplitude])
    # k = 0 is the limit of Proposition (counter single)
    squared = (first.sum() - second.sum()) ** 2 / (2 * h) ** 2
    x1, _, _, optimum = two_group_cycle(first, second, 0.3, 0.0)
    assert (x1 - optimum) ** 2 == pytest.approx(squared)


@pytest.mark.parametrize(("h1", "h2"), [(1, 1), (1, 4), (3, 2)])
@pytest.mark.parametrize("k", [0, 1, 5])
def test_every_group_size_against_algorithm_1(h1: int, h2: int, k: int) -> None:
    optima = np.random.default_rng([h1, h2, k]).normal(0, 50, h1 + h2)
    local_lr, steps, lr = 0.07, 4, 1.3
    trace = np.tile(two_group_trace(h1, h2), (300, 1))
    servers, locals_ = algorithm_1(trace, list(optima), local_lr, steps, lr, k)
    step = visit_step(local_lr, steps, lr)
    *cycle, client_mean, optimum = two_group_cycle(optima[:h1], optima[h1:], step, k)
    assert servers[-2:] == pytest.approx(cycle, abs=1e-9)
    assert np.mean(locals_[-1]) == pytest.approx(optima.mean(), abs=1e-9)
    assert client_mean == pytest.approx(optimum)
    limit = fedswe_trace_limit(two_group_trace(h1, h2), step, k)
    assert limit.server @ optima == pytest.approx(servers[-2:], abs=1e-9)
    server, clients = fedswe_trajectory(trace, optima, step, k, 0.0)
    assert server[1:] == pytest.approx(np.array(servers), abs=1e-9)
    assert clients[1:] == pytest.approx(np.array(locals_), abs=1e-9)


def test_any_repeated_trace_against_algorithm_1_and_the_expected_limit() -> None:
    rng = np.random.default_rng(1)
    for _ in range(12):
        rounds, clients, k = int(rng.integers(1, 7)), int(rng.integers(1, 6)), int(rng.integers(0, 4))
        trace = rng.random((rounds, clients)) < 0.4
        trace[rng.integers(rounds), ~trace.any(axis=0)] = True
        optima = rng.normal(0, 10, clients)
        limit = fedswe_trace_limit(trace, visit_step(0.05, 3), k)
        assert limit.spectral_radius < 1
        periods = math.ceil(-30 / math.log(max(limit.spectral_radius, 1e-9))) + 2
        servers, locals_ = algorithm_1(np.tile(trace, (periods, 1)), list(optima), 0.05, 3, 1.0, k)
        assert limit.server @ optima == pytest.approx(servers[-rounds:], abs=1e-8)
        means = [np.mean(models) for models in locals_[-rounds:]]
        assert limit.client_mean @ optima == pytest.approx(means, abs=1e-8)
        expected = fedswe_limit(trace.astype(float), visit_step(0.05, 3), k)
        assert limit.server == pytest.approx(expected.server, abs=1e-9)
        assert limit.client_mean == pytest.approx(expected.client_mean, abs=1e-9)


def test_stability_ends_where_the_map_of_one_period_says() -> None:
    for h, k in itertools.product([1, 2, 5], [0.0, 0.5, 4.0]):
        edge = 1 + k / (2 * h)
        assert two_groups_converge(h, h, 0.999 * edge, k)
        assert not two_groups_converge(h, h, 1.001 * edge, k)
    rng = np.random.default_rng(2)
    for h1, h2 in rng.integers(1, 60, (500, 2)):
        k, step = float(rng.choice([0.5, 5, 50])), rng.uniform(0.9, 2.5)  # unequal groups: the trace decides too
        limit = fedswe_trace_limit(two_group_trace(h1, h2), step, k)
        assert two_groups_converge(h1, h2, step, k) == (limit.spectral_radius < 1)
    for h1, h2, step, k in itertools.product([1, 3], [2, 7], [0.1, 0.9, 1.1, 1.5, 3.0], [0.0, 1.0, 6.0]):
        limit = fedswe_trace_limit(two_group_trace(h1, h2), step, k)
        assert two_groups_converge(h1, h2, step, k) == (limit.spectral_radius < 1)
        server, _ = fedswe_trajectory(np.tile(two_group_trace(h1, h2), (400, 1)), np.arange(h1 + h2), step, k, 0.0)
        assert (np.abs(server[-1]) < 1e3) == (limit.spectral_radius < 1)


def test_an_empty_round_keeps_the_model() -> None:
    trace = np.array([[1, 0], [0, 0], [0, 1]])
    for k in (0.0, 2.0):
        limit = fedswe_trace_limit(trace, 0.5, k)
        assert limit.server[1] == pytest.approx(limit.server[0])
