"""The one-file FedSWE computes the package's numbers."""

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from fedswe.algorithms import FedSWE
from fedswe.core.aggregation import aggregate, begin
from fedswe.core.algorithm import ClientView, Done, ServerView, empty_report
from fedswe.core.records import add

FILE = Path(__file__).parents[1] / "examples" / "single_file.py"


@pytest.fixture(scope="module")
def single():
    return runpy.run_path(str(FILE))


@pytest.mark.parametrize("k", [0, 100])
def test_the_models_are_those_of_the_package(single, k):
    """The package's definition of the algorithm, with the file's task and local training."""
    x0, available, train, _ = single["task"]()
    available = available[:25].copy()
    available[7] = False  # a round without reports
    expected = single["fedswe"](x0, available, train, k, global_rate=0.9)
    algorithm, start = FedSWE(k=k, lr=0.9), torch.as_tensor(x0)
    server = begin(algorithm, start)
    clients = [algorithm.client_init(start) for _ in range(available.shape[1])]
    for t, row in enumerate(available):
        at_server = ServerView(t, len(row), local_lr=1.0)
        at = ClientView(t=torch.tensor([float(t)]), p=torch.ones(1))
        total, count, down = empty_report(algorithm, start), 0, algorithm.downlink(server.state, at_server)
        for i in np.flatnonzero(row):
            job = algorithm.plan(clients[i], down, at)
            end = torch.as_tensor(train(i, job.start.numpy(), t))
            clients[i], report = algorithm.report(clients[i], down, job, Done(end, steps=10, lr=1.0), at)
            total, count = add(total, report), count + 1
        server, reply = aggregate(algorithm, server, total, count, at_server)
        for i in np.flatnonzero(row):
            clients[i] = algorithm.settle(clients[i], reply, at)
        mean = torch.stack([client.x for client in clients]).mean(0)
        np.testing.assert_allclose(server.model.numpy(), expected[t][0], rtol=0, atol=1e-12)
        np.testing.assert_allclose(mean.numpy(), expected[t][1], rtol=0, atol=1e-12)


def test_its_gradient_is_that_of_torch(single):
    rng = np.random.default_rng(0)
    x, inputs, labels = rng.normal(size=650), rng.normal(size=(7, 64)), rng.integers(0, 10, 7)
    model = torch.tensor(x, requires_grad=True)
    scores = torch.as_tensor(inputs) @ model[:640].reshape(10, 64).T + model[640:]
    torch.nn.functional.cross_entropy(scores, torch.as_tensor(labels)).backward()
    np.testing.assert_allclose(single["softmax_gradient"](x, inputs, labels), model.grad.numpy(), atol=1e-12)


def test_it_runs_and_learns_without_the_package(tmp_path):
    done = subprocess.run([sys.executable, "-I", FILE], cwd=tmp_path, capture_output=True, text=True, check=True)
    last = done.stdout.splitlines()[-1].split()
    assert last[:2] == ["round", "200"]
    assert float(last[-1]) > 0.88
    imports = [line for line in FILE.read_text().splitlines() if line.startswith(("import ", "from "))]
    assert not any("fedswe" in line for line in imports)
    assert len(FILE.read_text().splitlines()) <= 150
