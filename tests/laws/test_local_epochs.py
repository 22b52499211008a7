"""Local epochs: each pass takes every sample once, and clients take as many steps as they have batches."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fedswe import Experiment
from fedswe.algorithms import FedAvg, LocalGHBM, Scaffold
from fedswe.availability import Sine
from fedswe.clock import Seconds
from fedswe.core.local import Local
from fedswe.core.transforms import Momentum
from fedswe.errors import FedsweError
from fedswe.tasks import Digits, Quadratic, from_data
from tests import problems
from tests.stacked import assert_same_as_alone, run_together

LOCAL = Local(epochs=2, batch_size=16, lr=0.1)


def test_a_pass_takes_every_sample_once():
    problem = Digits(clients=9, partition="uneven", alpha=0.5).build(problems.setting())
    clients = np.array([1, 4, 8])
    steps, sizes = problem.steps(clients, LOCAL), problem.sizes[clients]
    np.testing.assert_array_equal(steps, 2 * np.ceil(sizes / 16))
    assert len(set(steps)) == 3
    drawn = problem.draw(torch.as_tensor(clients), 3, steps, 16)
    for row, client in enumerate(clients):
        index, weight = drawn.index[row, : steps[row]], drawn.weight[row, : steps[row]]
        torch.testing.assert_close(weight.sum(1), torch.ones(len(weight), dtype=weight.dtype))
        passes = [i[w > 0].tolist() for i, w in zip(index.chunk(2), weight.chunk(2), strict=True)]
        assert [sorted(taken) for taken in passes] == [problem.samples.part(client).tolist()] * 2
        assert passes[0] != passes[1]


def batch_normalised():
    return nn.Sequential(nn.Flatten(), nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))


def drops():
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Dropout(0.3), nn.Linear(6, 3))


def own(model, loaded=False):
    random = np.random.default_rng(1)
    data = [(random.normal(size=(n, 4)).astype(np.float32), random.integers(0, 3, n)) for n in (3, 40, 18, 7, 23)]
    return from_data(model, data.__getitem__ if loaded else data, clients=5 if loaded else None)


@pytest.mark.parametrize(
    ("task", "algorithm", "chain"),
    [
        (Digits(clients=9, partition="uneven", crop=1, flip=True), Scaffold(), ()),
        (Digits(clients=9, alpha=0.3), FedAvg(), (Momentum(0.5),)),
        (own(drops), LocalGHBM(), ()),
        (own(drops, loaded=True), FedAvg(), (Momentum(0.5),)),
        (own(batch_normalised), FedAvg(), ()),
    ],
)
def test_engines_and_stacks_agree(task, algorithm, chain):
    local = replace(LOCAL, chain=chain)
    base = Experiment(7, task=task, availability=Sine(p=0.6), algorithm=algorithm, dtype="float64", local=local)
    other = replace(base, seed=4, local=replace(base.local, lr=0.05))
    stacked = assert_same_as_alone([base, other], rtol=1e-6)
    for history, experiment in zip(stacked, (base, other), strict=True):
        one = run_together([replace(experiment, engine="loop")])[0]
        for column in set(one.columns) - {"seconds"}:
            np.testing.assert_allclose(history[column], one[column], rtol=1e-6, err_msg=column)


def test_more_samples_take_more_simulated_time():
    base = Experiment(task=Digits(clients=5, partition="uneven"), rounds=2, clock=Seconds(step_sigma=0.0), local=LOCAL)
    short = run_together([replace(base, local=replace(LOCAL, epochs=1))])[0]
    assert run_together([base])[0]["work_seconds"][-1] > short["work_seconds"][-1]


def test_refused():
    with pytest.raises(FedsweError, match="not both"):
        Local(steps=3, epochs=1)
    with pytest.raises(FedsweError, match=r"local\.epochs needs a task whose clients have samples"):
        run_together([Experiment(task=Quadratic(), local=LOCAL)])
    with pytest.raises(FedsweError, match="in its last batch"):  # client 1 would have a batch of one sample
        run_together([Experiment(task=own(batch_normalised), rounds=30, local=replace(LOCAL, batch_size=13))])
