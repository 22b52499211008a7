"""Runs that train as one stack end where they end one by one."""

from dataclasses import replace

import numpy as np
import pytest

from fedswe import run
from fedswe.experiment.configuration import load
from tests.algorithms import ALGORITHMS
from tests.stacked import run_together


def assert_same(histories, alone, tolerance):
    for together, single in zip(histories, alone, strict=True):
        assert together.columns == single.columns
        for column in single.columns:
            if column != "seconds":
                np.testing.assert_allclose(together[column], single[column], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-4), ("float64", 1e-9)])
def test_all_algorithms_with_their_own_seeds_rates_and_clips(dtype, tolerance):
    words = [
        "rounds=9",
        "evaluate.every=4",
        "task.alpha=0.5",
        "task.clients=12",
        "local.batch_size=24",
        f"dtype={dtype}",
    ]
    experiments = [
        load(
            None,
            [
                *words,
                f"algorithm.name={name}",
                f"seed={i}",
                f"local.lr={0.05 + 0.01 * i}",
                f"local.clip={0.5 * (i % 2)}",
            ],
        )
        for i, name in enumerate(ALGORITHMS)
    ]
    experiments[3] = replace(experiments[3], rounds=6)  # one that ends before the others
    together = run_together(experiments)
    assert_same(together, [run(experiment).history for experiment in experiments], tolerance)
    finals = {h.last["server_train_loss"] for h in together}
    assert len(finals) == len(together)  # nobody was given another's result


def test_different_tasks_and_networks_share_a_stack():
    experiments = [
        load(None, ["rounds=4", "task.clients=8", "task.alpha=1", "task.model=mlp"]),
        load(None, ["rounds=4", "task.clients=8", "task.alpha=1", "task.model=softmax", "local.steps=3"]),
        load(None, ["rounds=4", "task.name=quadratic", "availability.p=0.5"]),
        load(None, ["rounds=4", "task.clients=5", "task.alpha=1", "task.model=cnn", "task.crop=1", "task.flip=true"]),
    ]
    assert_same(run_together(experiments), [run(experiment).history for experiment in experiments], 1e-5)
