"""Classification: labelled data parted among clients, a network, and the cross-entropy."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional as F

from fedswe.core import keys
from fedswe.core.records import Vector
from fedswe.errors import FedsweError, require
from fedswe.tasks.networks import NETWORKS, Network
from fedswe.tasks.partition import Indices, dirichlet_shares, partition, realised_shares
from fedswe.tasks.problem import Problem, Setting, Task

_EVALUATION_BATCH = 4096


@dataclass(frozen=True)
class Labelled:
    """A data set in memory; inputs are [N, C, H, W] or [N, features], labels 0..classes-1."""

    x_train: npt.NDArray[np.floating]
    y_train: npt.NDArray[np.int64]
    x_test: npt.NDArray[np.floating]
    y_test: npt.NDArray[np.int64]

    @property
    def classes(self) -> int:
        return int(max(self.y_train.max(), self.y_test.max())) + 1


@dataclass(frozen=True)
class LabelledTask(Task):
    """A labelled data set, parted among clients by the Dirichlet partition."""

    clients: int = 50
    alpha: float = 0.1  # concentration: smaller is more heterogeneous
    model: Literal["softmax", "mlp", "cnn"] = "softmax"

    def __post_init__(self) -> None:
        require(self.clients >= 1, f"clients must be at least 1, not {self.clients}")
        require(0 < self.alpha < float("inf"), f"alpha must be positive, not {self.alpha:g}")

    @abstractmethod
    def load(self) -> Labelled:
        """Read the data set."""

    def build(self, setting: Setting) -> Problem:
        data = self.load()
        rng = setting.legacy or keys.generator(setting.seed, "partition")
        drawn = dirichlet_shares(rng, self.alpha, self.clients, data.classes)
        parts = partition(data.y_train, drawn)
        empty = [i for i, part in enumerate(parts) if not len(part)]
        if empty:
            raise FedsweError(
                f"client {empty[0]} has no data ({len(empty)} of {self.clients} clients are empty): "
                "lower task.clients, raise task.alpha, or try another seed"
            )
        shape = data.x_train.shape[1:]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(keys.stream_key(setting.seed, "initial model"))
            network = Network(NETWORKS[self.model](shape, data.classes))
        problem = LabelledProblem(data, parts, network, setting)
        problem.drawn = drawn
        problem.realised = realised_shares(data.y_train, parts, data.classes)
        return problem


@dataclass(frozen=True)
class Batch:
    """Samples of n clients for one step; weight is 1/(batch size) on samples and 0 on padding."""

    index: torch.Tensor  # [n, B]
    weight: torch.Tensor  # [n, B]


class LabelledProblem(Problem):
    def __init__(self, data: Labelled, parts: list[Indices], network: Network, setting: Setting) -> None:
        device, dtype = setting.device, setting.dtype

        def inputs(x: npt.NDArray[np.floating]) -> torch.Tensor:
            return torch.as_tensor(x, dtype=dtype, device=device)

        self.m, self._seed, self.network = len(parts), setting.seed, network
        self.start = network.initial().to(device=device, dtype=dtype)
        self._train = inputs(data.x_train), torch.as_tensor(data.y_train, device=device)
        self._test = inputs(data.x_test), torch.as_tensor(data.y_test, device=device)
        self.sizes = torch.tensor([len(part) for part in parts], device=device)
        self._table = torch.zeros(self.m, int(self.sizes.max()), dtype=torch.int64, device=device)
        for i, part in enumerate(parts):
            self._table[i, : len(part)] = torch.as_tensor(part, device=device)

    def draw(self, clients: torch.Tensor, t: int, steps: int, batch_size: int) -> Sequence[Batch]:
        """Batches without replacement: each client shuffles its samples and walks through them, batch by batch,
        shuffling anew when less than a batch is left. A client with less than a batch uses all it has.

        The shuffle is keyed by client, round and pass, so an absent client's data stay where they are. (The
        released code lets one pass continue from round to round.)
        """
        clients = clients.to(self._table.device)
        size = self.sizes[clients]
        batch = size.clamp(max=batch_size)  # [n]
        width = int(batch.max())
        per_pass = size // batch
        step = torch.arange(steps, device=size.device)
        which_pass = step // per_pass[:, None]  # [n, steps]
        offset = (step % per_pass[:, None]) * batch[:, None]
        column = torch.arange(width, device=size.device)
        position = offset[:, :, None] + column  # [n, steps, B]
        inside = column < batch[:, None, None]
        position = torch.where(inside, position, torch.zeros_like(position))
        if bool((size > batch_size).any()):
            order = self._shuffled(clients, t, int(which_pass.max()) + 1)  # [n, passes, n_max]
            rows = torch.arange(len(clients), device=size.device)[:, None, None]
            position = order[rows, which_pass[:, :, None], position]
        index = torch.gather(self._table[clients], 1, position.flatten(1)).view_as(position)
        weight = (inside / batch[:, None, None]).to(self.start.dtype)[:, 0]
        return [Batch(index[:, s], weight) for s in range(steps)]

    def _shuffled(self, clients: torch.Tensor, t: int, passes: int) -> torch.Tensor:
        slots = torch.arange(self._table.shape[1], device=clients.device)
        passes_ = torch.arange(passes, device=clients.device)
        bits = keys.bits(self._seed, "batches", clients[:, None, None], t, passes_[:, None], slots)
        valid = slots < self.sizes[clients][:, None, None]
        return torch.where(valid, bits, torch.iinfo(torch.int64).max).argsort(dim=-1, stable=True)

    def gradient(self, x: Vector, batch: Batch) -> Vector:
        inputs, labels = (part[batch.index] for part in self._train)
        x = x.detach().requires_grad_()
        losses = F.cross_entropy(self.network.logits(x, inputs), labels, reduction="none")
        return torch.autograd.grad((batch.weight * losses).sum(), x)[0]

    def gradients(self, x: Vector, batch: Batch) -> Vector:
        if not self.network.stacks:
            rows = zip(x, batch.index, batch.weight, strict=True)
            return torch.stack([self.gradient(xi, Batch(i, w)) for xi, i, w in rows])
        inputs, labels = (part[batch.index] for part in self._train)
        x = x.detach().requires_grad_()
        logits = self.network.stacked_logits(x, inputs)
        losses = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
        # The clients' losses share no parameters, so the gradient of their sum holds each one's own.
        return torch.autograd.grad((batch.weight.flatten() * losses).sum(), x)[0]

    def full_gradients(self, x: Vector, clients: torch.Tensor) -> Vector:
        clients = clients.to(self._table.device)
        size = self.sizes[clients][:, None]
        inside = torch.arange(self._table.shape[1], device=size.device) < size
        return self.gradients(x, Batch(self._table[clients], (inside / size).to(x.dtype)))

    def evaluate(self, x: Vector) -> dict[str, float]:
        scores = {}
        for name, (inputs, labels) in (("train", self._train), ("test", self._test)):
            loss = correct = 0.0
            with torch.no_grad():
                for part in _chunks(len(labels)):
                    logits = self.network.logits(x, inputs[part])
                    loss += float(F.cross_entropy(logits, labels[part], reduction="sum"))
                    correct += int((logits.argmax(1) == labels[part]).sum())
            scores[f"{name}_loss"] = loss / len(labels)
            scores[f"{name}_accuracy"] = correct / len(labels)
        return scores


def _chunks(size: int) -> Iterator[slice]:
    return (slice(a, a + _EVALUATION_BATCH) for a in range(0, size, _EVALUATION_BATCH))
