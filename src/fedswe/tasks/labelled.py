"""Classification: labelled data parted among clients, a network, and the cross-entropy."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch.func import grad, vmap
from torch.nn import functional as F

from fedswe.core import keys
from fedswe.core.records import Vector
from fedswe.core.transfer import to_device
from fedswe.errors import FedsweError, require
from fedswe.tasks import augment
from fedswe.tasks.augment import Augment
from fedswe.tasks.networks import NETWORKS, Network
from fedswe.tasks.partition import Indices, dirichlet_shares, partition, realised_shares
from fedswe.tasks.problem import Precision, Problem, Setting, Task

_EVALUATION_BATCH = 1024


@dataclass(frozen=True, eq=False)
class Labelled:
    """A data set in memory; inputs are [N, C, H, W] or [N, features], labels 0..classes-1."""

    x_train: npt.NDArray[np.floating]
    y_train: npt.NDArray[np.int64]
    x_test: npt.NDArray[np.floating]
    y_test: npt.NDArray[np.int64]

    @property
    def classes(self) -> int:
        return int(max(self.y_train.max(), self.y_test.max())) + 1


@dataclass(frozen=True, eq=False)
class Resident:
    """A data set on a device, shared by all problems that were built from it."""

    x_train: torch.Tensor
    y_train: torch.Tensor
    x_test: torch.Tensor
    y_test: torch.Tensor


@lru_cache(maxsize=2)  # runs of one data set follow each other; two allow for a change without keeping everything
def resident(data: Labelled, dtype: torch.dtype, device: torch.device) -> Resident:
    def inputs(x: npt.NDArray[np.floating]) -> torch.Tensor:
        tensor = torch.as_tensor(x, dtype=dtype, device=device)
        # Channels last is the layout in which CPU convolutions run about twice as fast.
        return tensor.to(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor

    def labels(y: npt.NDArray[np.int64]) -> torch.Tensor:
        return torch.as_tensor(y, device=device)

    return Resident(inputs(data.x_train), labels(data.y_train), inputs(data.x_test), labels(data.y_test))


@dataclass(frozen=True)
class LabelledTask(Task):
    """A labelled data set, parted among clients by the Dirichlet partition."""

    clients: int = 50
    alpha: float = 0.1  # concentration: smaller is more heterogeneous
    model: Literal["softmax", "mlp", "cnn", "svhn_cnn", "cifar10_cnn", "cinic10_cnn"] = "softmax"
    crop: int = 0  # train on random crops after padding by this many zero pixels
    flip: bool = False  # train on images mirrored at random

    def __post_init__(self) -> None:
        require(self.clients >= 1, f"clients must be at least 1, not {self.clients}")
        require(0 < self.alpha < float("inf"), f"alpha must be positive, not {self.alpha:g}")
        require(self.crop >= 0, f"crop must be 0 (off) or positive, not {self.crop}")

    @abstractmethod
    def load(self) -> Labelled:
        """The data set; read once and shared by the tasks of a process."""

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
        require(len(shape) == 3 or not (self.crop or self.flip), "task.crop and task.flip need images")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(keys.stream_key(setting.seed, "initial model"))
            network = Network(NETWORKS[self.model](shape, data.classes))
        problem = LabelledProblem(data, parts, network, setting, self.crop, self.flip)
        problem.drawn = drawn
        problem.realised = realised_shares(data.y_train, parts, data.classes)
        return problem


@dataclass(frozen=True)
class Batch:
    """Samples of n clients for one step; weight is 1/(batch size) on samples and 0 on padding."""

    index: torch.Tensor  # [n, B]
    weight: torch.Tensor  # [n, B]
    augment: Augment | None = None  # [n, B]
    dropout: torch.Tensor | None = None  # [n], random bits that name the units to leave out

    def client(self, i: int) -> Batch:
        """The batch of one of the n clients."""
        return Batch(
            self.index[i],
            self.weight[i],
            None if self.augment is None else self.augment[i],
            None if self.dropout is None else self.dropout[i],
        )


@dataclass(frozen=True)
class Batches:
    """The batches of a round, kept together: [n, steps, B], weight [n, B], dropout [n, steps]."""

    index: torch.Tensor
    weight: torch.Tensor
    augment: Augment | None
    dropout: torch.Tensor | None

    @staticmethod
    def joined(drawn: list[Batches]) -> Batches:
        """The draws of several runs one after another, narrow batches padded with weight 0."""
        width = max(b.index.shape[2] for b in drawn)

        def pad(x: torch.Tensor) -> torch.Tensor:
            return F.pad(x, (0, width - x.shape[-1]))

        changes = [b.augment for b in drawn if b.augment is not None]
        dropout = [b.dropout for b in drawn if b.dropout is not None]
        return Batches(
            torch.cat([pad(b.index) for b in drawn]),
            torch.cat([pad(b.weight) for b in drawn]),
            Augment.joined(changes, pad) if changes else None,
            torch.cat(dropout) if dropout else None,
        )

    def __getitem__(self, rows: slice) -> Batches:
        return Batches(
            self.index[rows],
            self.weight[rows],
            None if self.augment is None else self.augment[rows],
            None if self.dropout is None else self.dropout[rows],
        )

    def __iter__(self) -> Iterator[Batch]:
        for step in range(self.index.shape[1]):
            here = (slice(None), step)
            yield Batch(
                self.index[here],
                self.weight,
                None if self.augment is None else self.augment[here],
                None if self.dropout is None else self.dropout[here],
            )


class LabelledProblem(Problem):
    def __init__(
        self,
        data: Labelled,
        parts: list[Indices],
        network: Network,
        setting: Setting,
        crop: int = 0,
        flip: bool = False,
    ) -> None:
        device = setting.device
        self.m, self._seed, self.network = len(parts), setting.seed, network
        self._crop, self._flip = crop, flip
        self.start = network.initial().to(device=device, dtype=setting.dtype)
        self.data = resident(data, setting.dtype, device)
        self._train = self.data.x_train, self.data.y_train
        self._test = self.data.x_test, self.data.y_test
        self._sizes = np.array([len(part) for part in parts])  # on the host, where shapes are decided
        self.sizes = torch.as_tensor(self._sizes, device=device)
        self._table = torch.zeros(self.m, int(self._sizes.max()), dtype=torch.int64, device=device)
        self._slots = torch.arange(self._table.shape[1], device=device)
        for i, part in enumerate(parts):
            self._table[i, : len(part)] = torch.as_tensor(part, device=device)

    def draw(self, clients: torch.Tensor, t: int, steps: int, batch_size: int) -> Batches:
        """Batches without replacement: each client shuffles its samples and walks through them, batch by batch,
        shuffling anew when less than a batch is left. A client with less than a batch uses all it has.

        The shuffle is keyed by client, round and pass, so an absent client's data stay where they are. (The
        released code lets one pass continue from round to round.)
        """
        sizes = self._sizes[clients.numpy()]
        width = int(min(sizes.max(), batch_size))
        here = self._table.device
        on_host, clients = clients, to_device(clients, here)

        def named(stream: str) -> torch.Tensor:
            return to_device(keys.bits(self._seed, stream, on_host, t), here)

        size = self.sizes[clients]
        batch = size.clamp(max=batch_size)  # [n]
        per_pass = size // batch
        step = torch.arange(steps, device=size.device)
        offset = (step % per_pass[:, None]) * batch[:, None]  # [n, steps]
        column = torch.arange(width, device=size.device)
        inside = column < batch[:, None]  # [n, B]
        position = torch.where(inside[:, None], offset[:, :, None] + column, 0)  # [n, steps, B]
        if sizes.max() > batch_size:
            passes = -(-steps // int((sizes[sizes > batch_size] // batch_size).min()))
            order = self._shuffled(named("batches"), clients, passes)  # [n, passes, n_max]
            rows = torch.arange(len(clients), device=size.device)[:, None, None]
            which = (step // per_pass[:, None]).clamp(max=passes - 1)  # a full batch is the same in any order
            position = order[rows, which[:, :, None], position]
        index = torch.gather(self._table[clients], 1, position.flatten(1)).view_as(position)
        weight = (inside / batch[:, None]).to(self.start.dtype)
        changes = None
        if self._crop or self._flip:
            changes = augment.draw(named("augmentation"), steps, width, self._crop, self._flip)
        dropout = keys.grid(named("dropout"), 1, steps)[:, 0] if self.network.drops else None
        return Batches(index, weight, changes, dropout)

    def _shuffled(self, names: torch.Tensor, clients: torch.Tensor, passes: int) -> torch.Tensor:
        """Random orders of each client's samples, one per pass, padding last."""
        bits = keys.grid(names, passes, self._table.shape[1])
        valid = self._slots < self.sizes[clients][:, None, None]
        return torch.where(valid, bits, torch.iinfo(torch.int64).max).argsort(dim=-1, stable=True)

    def _inputs(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        images, labels = self._train
        # index_select copies whole rows; indexing with [...] is four times slower here.
        inputs = images.index_select(0, batch.index.flatten()).reshape(*batch.index.shape, *images.shape[1:])
        if batch.augment is not None:
            inputs = batch.augment.apply(inputs)
        if inputs.ndim == 4 and inputs.device.type == "cpu":
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        return inputs, labels[batch.index]

    def gradient(self, x: Vector, batch: Batch, precision: Precision = "fp32") -> Vector:
        inputs, labels = self._inputs(batch)
        x = x.detach().requires_grad_()
        with arithmetic(precision, x.device.type):
            return torch.autograd.grad(self._loss(x, inputs, labels, batch.weight, batch.dropout), x)[0]

    def _loss(
        self, x: Vector, inputs: torch.Tensor, labels: torch.Tensor, weight: torch.Tensor, dropout: torch.Tensor | None
    ) -> torch.Tensor:
        logits = self.network.logits(x, inputs, dropout).to(x.dtype)
        return (weight * F.cross_entropy(logits, labels, reduction="none")).sum()

    def gradients(self, x: Vector, batch: Batch, precision: Precision = "fp32") -> Vector:
        if self.network.stacks:
            with arithmetic(precision, x.device.type), torch.no_grad():
                return self.network.stacked_gradients(x, *self._inputs(batch), batch.weight)
        if x.device.type == "cpu":
            # Convolutions with weights of their own are 5 to 7 times slower stacked than in turn on a CPU.
            return torch.stack([self.gradient(row, batch.client(i), precision) for i, row in enumerate(x)])
        inputs, labels = self._inputs(batch)
        mapped = vmap(grad(self._loss), in_dims=(0, 0, 0, 0, None if batch.dropout is None else 0))
        with arithmetic(precision, x.device.type):
            result: Vector = mapped(x.detach(), inputs, labels, batch.weight, batch.dropout)
        return result

    def family(self) -> object:
        return id(self.data), self.network.signature, bool(self._crop or self._flip)

    def joined(self, drawn: list[Batches]) -> Batches:
        return Batches.joined(drawn)

    def row_size(self, batch_size: int) -> int:
        return int(self._train[0][0].numel() * min(batch_size, self._sizes.max()))

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


@contextmanager
def arithmetic(precision: Precision, device: str) -> Iterator[None]:
    """bf16: products and convolutions in bfloat16; tf32, fp32: whether a GPU may round their inputs to tf32."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    try:
        with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
            yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def _chunks(size: int) -> Iterator[slice]:
    return (slice(a, a + _EVALUATION_BATCH) for a in range(0, size, _EVALUATION_BATCH))
