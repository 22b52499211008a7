"""The engines against exact results: the counterexample's limit cycle and FedAvg's bias."""

import numpy as np
import pytest

from fedswe.algorithms import FedAvg, FedAvgAll, FedSWE
from fedswe.availability.mask import Rows
from fedswe.core.local import Local
from fedswe.engine.batched import BatchedEngine
from fedswe.tasks import Quadratic
from tests import problems
from tests.problems import ENGINES


@pytest.mark.parametrize("kind", ENGINES)
@pytest.mark.parametrize(
    ("k", "rate", "steps", "h"), [(0, 0.3, 1, 1), (1, 0.01, 1, 1), (1, 0.1, 10, 1), (4, 0.1, 3, 3)]
)
def test_limit_cycle_of_the_counterexample(kind, k, rate, steps, h):
    """Two groups of h alternate: x - x* tends to +-D, D = a h (u1 - u2) / (2 (k + a h)), a = 1 - (1 - eta)^s."""
    rounds = 4000 if rate < 0.05 else 600
    present = np.zeros((rounds, 2 * h), dtype=bool)
    present[0::2, :h] = True
    present[1::2, h:] = True
    problem = Quadratic(centers=[[100.0]] * h + [[-60.0]] * h).build(problems.setting())
    local = Local(steps=steps, lr=rate, schedule="constant")
    engine = ENGINES[kind](FedSWE(k=k), problem, Rows(present, np.ones((1, 2 * h))), local, 0)
    if kind == "loop" and rounds > 1000:
        pytest.skip("the batched engine covers the long run; the loop engine is checked on the others")
    models = problems.trajectory(engine, rounds)[:, 0]
    a = 1 - (1 - rate) ** steps
    distance = a * h * 160 / (2 * (k + a * h))
    np.testing.assert_allclose(models[-2:] - 20.0, [distance, -distance], rtol=1e-6)
    # The mean of the local models is optimal whatever k: it cannot show that k = 0 fails.
    assert float(engine.client_mean()) == pytest.approx(20.0, rel=1e-6)


@pytest.mark.parametrize(
    ("algorithm", "p", "limit"),
    [
        (FedAvg(), (0.1, 0.9), 93.96),
        (FedAvgAll(), (0.1, 0.9), 90.00),
        (FedAvg(), (1.0, 0.2), 10.0),
        (FedAvgAll(), (1.0, 0.2), 100 * 0.2 / 1.2),
    ],
)
def test_bias_of_fedavg(algorithm, p, limit):
    """The expected limit is sum w_i u_i / sum w_i: w_i = E[1{i in A}/|A|] over active, w_i = p_i over all."""
    rounds = 1000
    rng = np.random.default_rng(0)
    means = []  # over time, for runs with independent coins
    for _ in range(8):
        present = rng.random((rounds, 2)) < np.array(p)
        problem = Quadratic().build(problems.setting())
        engine = BatchedEngine(
            algorithm, problem, Rows(present, np.array([p])), Local(steps=2, lr=0.1, schedule="constant"), 0
        )
        means.append(problems.trajectory(engine, rounds)[200:, 0].mean())
    assert np.std(means, ddof=1) / len(means) ** 0.5 < 0.5
    assert abs(np.mean(means) - limit) < 1.5  # the limits of the two differ by 4 and more
