"""The two workloads, the same for every engine: models, synthetic data, batches, and the line of results.

Imported by scripts that each run in an environment of their own, so it needs numpy and torch and nothing else.
"""

from __future__ import annotations

import functools
import json
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version

import torch
from torch import nn
from torch.nn import functional as F

LEARNING_RATE = 0.05


def cnn() -> nn.Sequential:
    """The paper's network for SVHN: 896 + 9,248 + 262,272 + 1,290 = 273,706 parameters."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(2048, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


def softmax() -> nn.Sequential:
    """Softmax regression: so little arithmetic that an engine's own cost shows."""
    return nn.Sequential(nn.Linear(784, 10))


@dataclass(frozen=True)
class Workload:
    name: str
    network: Callable[[], nn.Sequential]
    shape: tuple[int, ...]  # of one input
    clients: int
    samples: int  # per client
    per_round: int  # clients per round
    steps: int  # per client and round
    batch: int
    warmup: int  # rounds not timed
    rounds: int  # rounds timed

    @property
    def steps_per_round(self) -> int:
        return self.per_round * self.steps


WORKLOADS = {
    w.name: w
    for w in (
        Workload("cnn", cnn, (3, 32, 32), 100, 500, 10, 10, 128, warmup=1, rounds=3),
        Workload("softmax", softmax, (784,), 1000, 100, 100, 5, 20, warmup=2, rounds=40),
    )
}


def build(workload: Workload) -> nn.Sequential:
    torch.manual_seed(0)
    return workload.network()


@functools.cache
def data(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs [clients, samples, ...] and labels [clients, samples] of all clients, made once per process."""
    w = WORKLOADS[name]
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(w.clients, w.samples, *w.shape, generator=generator)
    y = torch.randint(10, (w.clients, w.samples), generator=generator)
    return x, y


def batches(x: torch.Tensor, y: torch.Tensor, size: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Shuffle a client's samples and walk through them, shuffling anew when less than a batch is left; endless."""
    while True:
        order = torch.randperm(len(y))
        for start in range(0, len(y) - size + 1, size):
            index = order[start : start + size]
            yield x[index], y[index]


def train(model: nn.Module, optimizer: torch.optim.Optimizer, workload: Workload, client: int) -> None:
    """The local phase of one client, for the engines that leave it to their user."""
    x, y = (part[client] for part in data(workload.name))
    stream = batches(x, y, workload.batch)
    for _ in range(workload.steps):
        inputs, labels = next(stream)
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        optimizer.step()


def report(peer: str, workload: Workload, times: list[float], packages: list[str], **extra: object) -> None:
    """Print the result; times are taken at the start and after every round, the first rounds being warm-up."""
    rounds = len(times) - 1 - workload.warmup
    seconds = times[-1] - times[workload.warmup]
    versions = {name: version(name) for name in ("torch", *packages)}
    line = {
        "peer": peer,
        "workload": workload.name,
        "client_steps_per_s": round(workload.steps_per_round * rounds / seconds, 2),
        "rounds": rounds,
        "seconds": round(seconds, 3),
        "versions": {"python": platform.python_version(), **versions},
        **extra,
    }
    print(json.dumps(line), flush=True)
