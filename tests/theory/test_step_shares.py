"""Expected shares against enumeration, known cases, and runs."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta

from fedswe.core.local import Local
from fedswe.core.transforms import Momentum
from fedswe.engine.batched import BatchedEngine
from fedswe.tasks import Quadratic
from fedswe.theory import step_shares
from fedswe.theory.limits import aggregation_weights
from fedswe.theory.step_shares import extrapolated_shares, interval_shares, memory_shares
from tests import problems
from tests.algorithms import ALGORITHMS

P = np.array([0.3, 0.6, 0.9])


@pytest.mark.parametrize("least", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_interval_shares_by_enumeration(power, least):
    expected = np.zeros(3)
    for there in itertools.product((0, 1), repeat=3):
        there = np.array(there)
        if there.any():
            chance = np.prod(np.where(there, P, 1 - P))
            weights = there * P**-power
            expected += chance * weights / max(weights.sum(), 3 * least)
    np.testing.assert_allclose(interval_shares(P, power, least), expected / expected.sum(), atol=1e-12)


@pytest.mark.parametrize("p", [np.linspace(0.05, 0.9, 12), np.full(12, 0.5), np.array([1.0] * 11 + [0.01])])
def test_series_and_enumeration(p, monkeypatch):
    enumerated = interval_shares(p, 1.0, 1.0)
    monkeypatch.setattr(step_shares, "ENUMERATED", 0)
    np.testing.assert_allclose(interval_shares(p, 1.0, 1.0), enumerated, rtol=1e-5)


def test_a_bounded_step_is_between_fedau_and_interval_weights():
    p = beta(1.0, 5.2).ppf((np.arange(100) + 0.5) / 100)
    distance = [np.abs(interval_shares(p, 1.0, least) - 0.01).sum() for least in (0.0, 0.5, 1.0)]
    assert distance[0] > distance[1] > distance[2]
    # never more weight than this: then the rule is FedAU, which is unbiased
    np.testing.assert_allclose(interval_shares(P, 1.0, (1 / P).sum() / 3), np.ones(3) / 3)


@pytest.mark.parametrize(("decay", "power"), [(0.5, 0.0), (0.5, 1.0), (0.9, 1.0), (0.97, 0.5)])
def test_memory_shares_by_enumeration(decay, power):
    """All triples of ages; the rest of the probability is below 1e-9."""
    ages = [np.arange(60), np.arange(25), np.arange(12)]
    chances = [p * (1 - p) ** n for p, n in zip(P, ages, strict=True)]
    weights = [decay**n * (decay + (1 - decay) / p) ** power for p, n in zip(P, ages, strict=True)]
    x = np.stack(np.meshgrid(*weights, indexing="ij"))
    chance = np.prod(np.stack(np.meshgrid(*chances, indexing="ij")), axis=0)
    expected = (chance * x / x.sum(0)).sum(axis=(1, 2, 3))
    np.testing.assert_allclose(memory_shares(P, decay, power), expected, atol=1e-8)


def test_known_cases():
    fedavg = aggregation_weights(P[None])[0]
    np.testing.assert_allclose(interval_shares(P, 0.0), fedavg / fedavg.sum(), atol=1e-12)
    np.testing.assert_allclose(memory_shares(P, 0.0, 0.5), interval_shares(P, 0.5))
    np.testing.assert_allclose(memory_shares(P, 0.9999), np.ones(3) / 3, atol=1e-3)
    np.testing.assert_allclose(memory_shares([1.0, 1.0], 0.7), [0.5, 0.5], atol=1e-12)
    np.testing.assert_allclose(memory_shares([0.2], 0.7), [1.0])


@pytest.mark.parametrize("decay", [0.3, 0.9, 0.99])
def test_shares_add_up_and_memory_is_less_biased(decay):
    p = np.linspace(0.02, 0.9, 40)
    shares = memory_shares(p, decay)
    assert shares.sum() == pytest.approx(1, abs=1e-10)
    of = {"fedavg": interval_shares(p, 0.0), "intervals": interval_shares(p, 1.0), "memory": shares}
    bias = {name: np.abs(40 * value - 1).max() for name, value in of.items()}
    assert bias["memory"] < bias["intervals"] < bias["fedavg"]


def test_with_many_clients_the_correction_is_complete():
    few, many = (np.tile([0.1, 0.5], n) for n in (3, 100))
    for shares in (lambda p: interval_shares(p, 1.0), lambda p: memory_shares(p, 0.8)):
        bias = [np.abs(len(p) * shares(p) - 1).max() for p in (few, many)]
        assert bias[1] < bias[0] / 10
        assert bias[1] < 0.03


@pytest.mark.parametrize(
    ("decay", "power"),
    [(0.8, 1.0), *(pytest.param(*of, marks=pytest.mark.exhaustive) for of in ((0.0, 1.0), (0.8, 0.0)))],
)
def test_a_run_with_a_small_rate_ends_where_the_shares_say(decay, power):
    from fedswe.availability.schedule import Bernoulli

    u, rounds = np.array([0.0, 1.0, 3.0]), 2000
    task = Quadratic(centers=u[:, None].tolist(), curvature=[1.0] * 3, start=1.0)
    algorithm = ALGORITHMS["decayed_memory"](decay=decay, power=power, cutoff=1000)
    schedule = Bernoulli(3, 5, lambda t: P)
    local = Local(steps=1, lr=0.02, schedule="constant")
    engine = BatchedEngine(algorithm, task.build(problems.setting()), schedule, local, problems.SEED)
    models = problems.trajectory(engine, rounds)[:, 0]
    # Standard error of the mean over the second half: about 0.05, from 20 relaxation times.
    assert models[rounds // 2 :].mean() == pytest.approx(memory_shares(P, decay, power) @ u, abs=0.12)
    assert abs(memory_shares(P, 0.0, 0.0) @ u - u.mean()) > 0.25  # FedAvg's bias, for comparison


def test_extrapolated_shares_by_enumeration():
    """At the limit the expected step vanishes; it is computed here set by set, as the algorithm does."""
    u, m = np.array([[0.0, 0.0], [1.0, 0.5], [3.0, -1.0]]), 3
    x = extrapolated_shares(P, u) @ u
    expected = np.zeros(2)
    for there in itertools.product((0, 1), repeat=m):
        there = np.flatnonzero(there)
        if len(there):
            w, moves = 1 / P[there], u[there] - x
            mean = w @ moves / w.sum()
            eta = min(max(1.0, w @ (moves**2).sum(1) / (2 * w.sum() * (mean @ mean))), 10.0)
            chance = np.prod([P[i] if i in there else 1 - P[i] for i in range(m)])
            expected += chance * eta * mean * min(1.0, w.sum() / m)
    np.testing.assert_allclose(expected, 0, atol=1e-10)
    np.testing.assert_allclose(extrapolated_shares(P, u, longest=1.0), interval_shares(P, 1.0, 1.0), atol=1e-12)


@pytest.mark.parametrize("momentum", [0.0, pytest.param(0.5, marks=pytest.mark.exhaustive)])
def test_where_an_extrapolated_run_ends(momentum):
    """Momentum changes the way and not the limit: its steps are sums of the same steps."""
    from fedswe.availability.schedule import Bernoulli

    p, rounds = np.array([0.3, 0.5, 0.7, 0.9]), 6000
    u = np.eye(4)
    task = Quadratic(centers=u.tolist(), curvature=[1.0] * 4, start=0.25)
    algorithm = ALGORITHMS["interval_extrapolation"](cutoff=1000, longest=4.0, chain=(Momentum(momentum),))
    local = Local(steps=1, lr=0.01 * (1 - momentum), schedule="constant")
    schedule = Bernoulli(4, 5, lambda t: p)
    engine = BatchedEngine(algorithm, task.build(problems.setting()), schedule, local, problems.SEED)
    found = problems.trajectory(engine, rounds)[rounds // 2 :].mean(axis=0)
    extrapolated, plain = extrapolated_shares(p, u, longest=4.0), interval_shares(p, 1.0, 1.0)
    assert np.abs(extrapolated - plain).max() > 0.04  # a rare client makes eta small in the rounds it is in
    np.testing.assert_allclose(found, extrapolated, atol=0.02)


def test_the_table_of_the_documentation():
    page = (Path(__file__).parents[2] / "docs" / "algorithms.md").read_text()
    rows = [
        line.strip("|").split("|") for line in page.splitlines() if re.match(r"\| .* \| \d\.\d\d \| \d\.\d\d \| ", line)
    ]
    p = beta(1.0, 5.2).ppf((np.arange(100) + 0.5) / 100)
    expected = {
        "`fedavg`": interval_shares(p, 0.0),
        "`interval_weights` (power 0.5)": interval_shares(p, 0.5),
        "`interval_weights:power=1`": interval_shares(p, 1.0),
        "`interval_weights:power=1:least=1`": interval_shares(p, 1.0, least=1.0),
        "`decayed_memory:power=0`": memory_shares(p, 0.9, 0.0),
        "`decayed_memory:decay=0.8`": memory_shares(p, 0.8),
        "`decayed_memory` (decay 0.9)": memory_shares(p, 0.9),
        "`decayed_memory:decay=0.97`": memory_shares(p, 0.97),
    }
    shown = {name.strip(): tuple(map(float, numbers)) for name, *numbers in rows}
    assert shown.keys() == expected.keys()
    for name, share in expected.items():
        found = 100 * share.max(), 100 * share.min(), np.abs(share - 0.01).sum() / 2
        np.testing.assert_allclose(found, shown[name], atol=0.0051)
