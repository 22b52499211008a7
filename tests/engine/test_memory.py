"""What a run needs of memory is known before it starts."""

import numpy as np
import pytest
import torch

from fedswe.algorithms import FedSWE
from fedswe.core.local import Local
from fedswe.engine.memory import distinct_rows, private_columns
from fedswe.engine.solvers.stacked import copies_of_the_largest
from tests import problems
from tests.algorithms import ALGORITHMS
from tests.engine.solvers.workbench import problem as images


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("fedswe", 0),
        ("fedavg", 0),
        ("fedau", 0),
        ("mifa", 1),
        ("fedvarp", 1),
        ("scaffold", 1),
        ("amplified_scaffold", 2),
    ],
)
def test_vectors_that_cannot_be_shared(name, columns):
    assert private_columns(ALGORITHMS[name]()) == columns


def test_rows_in_use_are_foreseen():
    present = problems.mask(200, 30)
    engine = problems.engine("batched", FedSWE(k=3), problems.quadratic(30), present)
    most = 0
    for _ in range(200):
        engine.step()
        most = max(most, engine.rows.distinct())
    assert most <= distinct_rows(present) <= most + 2
    assert len(engine.rows.table) <= 2 ** int(np.ceil(np.log2(distinct_rows(present)))) * 2


@pytest.mark.parametrize("model", ["svhn_cnn", "cinic10_cnn"])
def test_the_fused_solver_needs_more_for_more_clients_up_to_a_chunk(model):
    solver = pytest.importorskip("fedswe.engine.solvers.fused_cnn.solver", reason="Triton is not installed")
    task = images(model, (3, 32, 32))
    local = Local(steps=2, batch_size=128, precision="bf16")
    one, two, many, more = (solver.needs(task, local, clients) for clients in (1, 2, 128, 500))
    hidden = {"svhn_cnn": 2048 * 128, "cinic10_cnn": 2048 * 512 + 512 * 256}[model]
    assert two - one >= 2 * hidden  # a gradient of the hidden weights in bf16
    assert many - one == 127 * (two - one)
    assert more == many  # the rest waits for the next chunk
    assert one > 128 * 4 * 2 * len(task.start)  # models and drifts of a whole chunk


def test_clients_tried_for_memory_can_be_copied_to_pinned_memory():
    """A copy keeps the layout: clients that share one place in memory cannot be written there."""
    task = images("softmax")
    tried = copies_of_the_largest(task, 6)
    pinned = torch.empty_strided(tried.size(), tried.stride(), dtype=tried.dtype)
    assert pinned.copy_(tried).tolist() == [int(task.samples.sizes(np.arange(task.m)).argmax())] * 6
    assert task.draw(pinned, 0, 1, 16).index.shape == (6, 1, 16)
