"""The problem of a task with the user's own model and data, in torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import nn

from fedswe.core import keys
from fedswe.core.local import Precision
from fedswe.core.records import Vector
from fedswe.errors import require
from fedswe.tasks.classification_problem import arithmetic
from fedswe.tasks.networks import Network
from fedswe.tasks.problem import Problem, Setting

Samples = tuple[torch.Tensor, torch.Tensor]  # inputs [N, ...] and targets [N, ...]


@dataclass(frozen=True)
class Draw:
    """Positions of the samples of one step in each client's own data."""

    clients: list[int]
    index: list[torch.Tensor]

    def client(self, i: int) -> Draw:
        return Draw([self.clients[i]], [self.index[i]])


class CustomProblem(Problem):
    def __init__(self, task: Any, setting: Setting) -> None:  # a CustomTask, whose module imports this one
        self.m, self._task, self._setting = task.clients, task, setting
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(keys.stream_key(setting.seed, "initial model"))
            self.network = Network(task.network())
        require(not self.network.drops, "dropout is not supported here: remove the dropout layers of the network")
        self.start = self.network.initial().to(device=setting.device, dtype=setting.dtype)
        self.samples = cache(self._samples)

    def _samples(self, client: int) -> Samples:
        inputs, targets = self._on_device(self._task.load(client))
        require(len(inputs), f"client {client} has no samples")
        require(len(inputs) == len(targets), f"client {client} has {len(inputs)} inputs for {len(targets)} targets")
        return inputs, targets

    def _on_device(self, samples: Samples) -> Samples:
        inputs, targets = (torch.as_tensor(v).to(self._setting.device) for v in samples)
        dtype = self._setting.dtype
        return inputs.to(dtype), targets.to(dtype) if targets.is_floating_point() else targets

    def draw(self, clients: torch.Tensor, t: int, steps: int, batch_size: int) -> Iterator[Draw]:
        """Each client shuffles its samples in every pass, keyed by client, round and pass."""
        who = [int(i) for i in clients]
        for step in range(steps):
            index = []
            for i in who:
                size = len(self.samples(i)[0])
                batch = min(size, batch_size)
                which, offset = divmod(step, size // batch)
                name = keys.bits(self._setting.seed, "batches", i, t)
                order = keys.extend(name, which, torch.arange(size)).argsort(stable=True)
                index.append(order[offset * batch : (offset + 1) * batch])
            yield Draw(who, index)

    def gradient(self, x: Vector, batch: Draw, precision: Precision = "fp32") -> Vector:
        inputs, targets = self.samples(batch.clients[0])
        index = batch.index[0].to(inputs.device)
        x = x.detach().requires_grad_()
        with arithmetic(precision, x.device.type):
            outputs = self.network.logits(x, inputs[index])
        return torch.autograd.grad(self._task.loss(outputs.to(x.dtype), targets[index]).mean(), x)[0]

    def gradients(self, x: Vector, batch: Draw, precision: Precision = "fp32") -> Vector:
        return torch.stack([self.gradient(row, batch.client(i), precision) for i, row in enumerate(x)])

    def full_gradients(self, x: Vector, clients: torch.Tensor) -> Vector:
        who = [int(i) for i in clients]
        return self.gradients(x, Draw(who, [torch.arange(len(self.samples(i)[0])) for i in who]))

    def state_dict(self, x: Vector) -> dict[str, torch.Tensor]:
        return self.network.parameters_at(x)

    def example(self) -> tuple[nn.Module, torch.Tensor]:
        return self.network.module, self.samples(0)[0][:2]

    def evaluate(self, x: Vector) -> dict[str, float]:
        samples = self._task.test()
        if samples is None:
            return {}
        inputs, targets = self._on_device(samples)
        with torch.no_grad():
            scores: dict[str, float] = self._task.scores(self.network.logits(x, inputs), targets)
        return scores
