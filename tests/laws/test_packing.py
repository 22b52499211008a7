"""Runs that train as one stack end where they end one by one."""

from dataclasses import replace

import pytest

from fedswe.experiment.configuration import load
from tests.algorithms import ALGORITHMS
from tests.stacked import assert_same_as_alone


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-4), ("float64", 1e-9)])
def test_all_algorithms_with_their_own_seeds_rates_and_clips(dtype, tolerance):
    words = ["rounds=9", "evaluate.every=4", "task.alpha=0.5", "task.clients=12", "local.batch_size=24"]
    experiments = []
    for i, name in enumerate(ALGORITHMS):
        own = f"algorithm.name={name} seed={i} local.lr={0.05 + 0.01 * i} local.clip={0.5 * (i % 2)}".split()
        experiments.append(load(None, [*words, f"dtype={dtype}", *own]))
    experiments[3] = replace(experiments[3], rounds=6)  # one that ends before the others
    finals = {h.last["server_train_loss"] for h in assert_same_as_alone(experiments, tolerance, tolerance)}
    assert len(finals) == len(experiments)  # nobody was given another's result


def test_different_tasks_and_networks_share_a_stack():
    experiments = [
        load(None, ["rounds=4", "task.clients=8", "task.alpha=1", "task.model=mlp"]),
        load(None, ["rounds=4", "task.clients=8", "task.alpha=1", "task.model=softmax", "local.steps=3"]),
        load(None, ["rounds=4", "task.name=quadratic", "availability.p=0.5"]),
        load(None, ["rounds=4", "task.clients=5", "task.alpha=1", "task.model=cnn", "task.crop=1", "task.flip=true"]),
    ]
    assert len(assert_same_as_alone(experiments, 1e-5, 1e-5)) == 4
