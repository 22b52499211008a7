"""Clients weighted by num-examples: Flower's own FedAvg, and the weighted runs of the simulator."""

import numpy as np
import pytest
from flwr.app import MetricRecord
from flwr.serverapp.strategy import FedAvg

from fedswe.errors import FedsweError
from fedswe.flower import Strategy
from fedswe.flower.replay import replay
from fedswe.registry import instance
from fedswe.tasks import Quadratic
from tests import problems
from tests.flower.apps import LOCAL, arrays, client_app, trajectory, vector
from tests.flower.grid import LocalGrid

M = 8
EXAMPLES = [10, 30, 25, 5, 400, 60, 60, 10]


def weighted_grid(problem, replies=None):
    """Each client says its number of examples."""
    grid = LocalGrid(client_app(problem), M)

    def saying(examples):
        def instead(message, reply):
            reply.content["metrics"] = MetricRecord({"num-examples": examples, "loss": 1.0})
            if replies is not None:
                replies.append(reply)
            return reply

        return instead

    grid.instead = {partition: saying(examples) for partition, examples in enumerate(EXAMPLES)}
    return grid


def test_fedavg_has_the_numbers_of_flower(problem):
    replies = []
    strategy = Strategy("fedavg", names=True, fraction_evaluate=0.0, limit_moves=False, mean_examples=1)
    found = trajectory(strategy, weighted_grid(problem, replies), arrays(problem.start), 1)[-1]
    theirs = FedAvg().aggregate_train(1, replies)[0]
    assert len(replies) == M
    np.testing.assert_allclose(found, vector(theirs).numpy(), rtol=1e-12)
    equal = Strategy("fedavg", names=True, fraction_evaluate=0.0, limit_moves=False)
    assert not np.allclose(trajectory(equal, weighted_grid(problem), arrays(problem.start), 1)[-1], found)


@pytest.mark.parametrize("name", ["fedau", "fedswe:k=3", "interval_extrapolation"])
def test_rules_have_the_numbers_of_the_weighted_simulator(name, tmp_path):
    centers, curvature = problems.centers(M), problems.curvatures(M)
    task = Quadratic(centers=centers, curvature=curvature, start=0.3, weights=[float(n) for n in EXAMPLES])
    problem, mask, store = task.build(problems.setting()), problems.mask(40, M), tmp_path / "f.db"
    options = {"names": True, "availability": mask, "seed": problems.SEED, "fraction_evaluate": 0.0, "store": store}
    options |= {"mean_examples": float(np.mean(EXAMPLES)), "limit_moves": False, "keep_reports": True}
    found = trajectory(Strategy(name, **options), weighted_grid(problem), arrays(problem.start), 20)
    engine = problems.engine("loop", instance("algorithm", name, ""), problem, mask, LOCAL)
    np.testing.assert_allclose(found, problems.trajectory(engine, 20), rtol=0, atol=1e-12)
    assert replay(store)[2] == ""
    with pytest.raises(FedsweError, match="other mean_examples"):
        trajectory(Strategy(name, **{**options, "mean_examples": 1}), weighted_grid(problem), arrays(problem.start), 20)


def test_refused(problem):
    for name in ("mifa", "fedbuff", "f3ast"):
        with pytest.raises(FedsweError, match="takes no weights here"):
            Strategy(name, mean_examples=1)
    strategy = Strategy("fedavg", serve="client_mean", mean_examples=1)
    with pytest.raises(FedsweError, match="weights of absent clients"):
        trajectory(strategy, weighted_grid(problem), arrays(problem.start), 1)
    grid = weighted_grid(problem)
    grid.instead[3] = lambda message, reply: reply.content.pop("metrics") and reply
    strategy = Strategy("fedavg", names=True, fraction_evaluate=0.0, limit_moves=False, mean_examples=1)
    trajectory(strategy, grid, arrays(problem.start), 1)
    assert not strategy._federation.members["3"].merged
    assert strategy._federation.members["4"].merged
