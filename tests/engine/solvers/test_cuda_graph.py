"""A local phase held in buffers that stay in place, replayed as a CUDA graph, ends where the plain steps end."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from fedswe.core.local import Local
from fedswe.engine.solvers import cuda_graph
from fedswe.engine.solvers.cuda_graph import Graphs, HeldPhase, train
from fedswe.engine.work import phase_end
from fedswe.tasks.batches import Augment, Batches
from fedswe.tasks.data_set import Resident
from fedswe.tasks.networks import NETWORKS
from tests.engine.solvers.workbench import problem, stack

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU; last measured result in benchmarks/")


@pytest.fixture(autouse=True)
def nothing_held():
    cuda_graph._HELD.clear()


@pytest.mark.parametrize(("drifting", "clip"), [(False, 0.0), (True, 0.3)])
@pytest.mark.parametrize("model", ["softmax", "mlp", "cnn"])
def test_a_held_phase_ends_where_the_steps_end(model, drifting, clip):
    """Few after many, narrow batches after wide ones, another round: nothing of an earlier phase is left in it."""
    one = problem(model)
    for t, ids in enumerate(([0, 1, 3, 5, 6, 7, 8], [1, 4], [0, 2], [0], range(9))):
        mine = stack([one], list(ids), t, drifting, clip)
        torch.testing.assert_close(train(mine, graph=False), mine.train(), rtol=1e-5, atol=1e-6)
    assert [held.room for held in cuda_graph._HELD.values()] == [16]  # one set of buffers served them all


def test_dropout_and_the_crops_of_several_runs():
    torch.manual_seed(1)
    layers = [nn.Flatten(), nn.Dropout(0.3), nn.Linear(192, 24), nn.ReLU(), nn.Dropout(0.3), nn.Linear(24, 10)]
    module = nn.Sequential(*layers)
    first, second = problem(module=module, seed=4), problem(module=module, seed=5)
    assert first.family() == second.family()
    for t in range(2):
        mine = stack([first, second], [1, 3, 4], t)
        want = mine.train()
        torch.testing.assert_close(train(mine, graph=False), want, rtol=1e-5, atol=1e-6)
        assert not torch.equal(want[:3], want[3:])


def test_chunks_that_are_not_full(monkeypatch):
    one = problem()
    monkeypatch.setattr("fedswe.engine.work._CHUNK", {"cpu": 4 * 192 * 16})
    mine = stack([one], list(range(9)))
    assert mine.rows == 4
    torch.testing.assert_close(train(mine, graph=False), mine.train(), rtol=1e-5, atol=1e-6)


def test_poisoned_places_reach_nobody():
    mine = stack([problem()], [1, 3, 5])
    batches = mine.draw()
    held = HeldPhase(mine, batches, 8, 16)
    held.x.fill_(torch.nan)
    held.lr.fill_(torch.nan)
    torch.testing.assert_close(held.run(mine, slice(0, 3), batches, graph=False), mine.train(), rtol=1e-5, atol=1e-6)
    assert held.x[3:].isnan().all()


def test_few_shapes_serve_all_crowds():
    sizes = np.array([cuda_graph._rounded(n) for n in range(1, 1025)])
    crowd = np.arange(1, 1025)
    assert (sizes >= crowd).all()
    assert (sizes <= crowd * 9 / 8).all()
    assert len(set(sizes[512:])) <= 8


def test_families_are_kept_apart_and_forgotten():
    for number in range(cuda_graph._KEPT + 2):
        one = problem(seed=number)
        mine = stack([one], [1, 3], local=Local(steps=1 + number, batch_size=16))
        torch.testing.assert_close(train(mine, graph=False), mine.train(), rtol=1e-5, atol=1e-6)
    assert len(cuda_graph._HELD) == cuda_graph._KEPT


class Own(nn.Linear):
    """A layer that might do anything."""


def test_only_layers_known_not_to_wait_are_captured():
    module = nn.Sequential(nn.Flatten(), Own(192, 10))
    assert not cuda_graph.has_only_torch_layers(module)
    assert cuda_graph.has_only_torch_layers(NETWORKS["cinic10_cnn"]((3, 32, 32), 10))


class Strangers(TorchDispatchMode):
    """Notes operations that touch the host's memory."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        tensors = [x for x in (*args, result) if isinstance(x, torch.Tensor)]
        if any(x.device.type != "meta" for x in tensors):
            self.seen.add(str(operation))
        return result


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_a_phase_asks_nothing_of_the_device(monkeypatch, dropout):
    """On the meta device, which has no numbers to give: waiting for one would end a capture on a GPU."""
    monkeypatch.setattr(
        "fedswe.tasks.supervised_problem.arithmetic", lambda *words: nullcontext()
    )  # autocast knows no meta
    convolution = [nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    module = nn.Sequential(*convolution, nn.Dropout(dropout), nn.Linear(64, 10)) if dropout else None
    one = problem(module=module)
    mine = stack([one], [0, 1, 3], drifting=True, clip=0.3)
    drawn = mine.draw()

    def absent(x):
        return torch.empty_like(x, device="meta")

    augmentations = Augment(*map(absent, vars(drawn.augment).values()))
    batches = Batches(
        absent(drawn.index), absent(drawn.weight), augmentations, absent(drawn.dropout) if dropout else None
    )
    one.samples.data = Resident(*map(absent, vars(one.data).values()))
    one.border = absent(one.border)
    row = [absent(x) for x in (mine.start, mine.drift, mine.lr)]
    with Strangers() as strangers:
        end = phase_end(mine.gradient, row[0], batches, *row[1:], mine.chain)
    assert end.shape == mine.start.shape
    assert not strangers.seen


# on the GPU --------------------------------------------------------------------------------------------
@gpu
@pytest.mark.parametrize("model", ["softmax", "mlp"])
def test_replayed_steps_give_the_bits_of_the_steps(model):
    one = problem(model, device="cuda")
    for t in range(4):
        for ids in ([0, 1, 3, 5, 6, 7, 8], [1, 4]):
            mine = stack([one], ids, t, drifting=True, clip=0.3)
            plain = train(mine, graph=False)
            assert torch.equal(train(mine), plain)  # as it is, then captured, then replayed
            torch.testing.assert_close(plain, mine.train(), rtol=1e-4, atol=1e-5)


@gpu
def test_convolutions_and_dropout_replayed():
    layers = [nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(256, 10)]
    one = problem(module=nn.Sequential(*layers), device="cuda")
    for t in range(4):
        mine = stack([one], [0, 1, 3, 5], t)
        torch.testing.assert_close(train(mine), mine.train(), rtol=1e-4, atol=1e-5)


@gpu
def test_a_graph_does_the_work_each_time():
    total, graphs = torch.zeros(3, device="cuda"), Graphs()
    for _ in range(5):
        graphs.run("add", lambda: total.add_(1))
    assert total.tolist() == [5.0] * 3
