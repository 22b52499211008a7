"""The problem of a classification task: batches, gradients and scores of clients with labelled data, in torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property

import numpy as np
import torch
from torch import nn
from torch.func import grad, vmap
from torch.nn import functional as F

from fedswe.core import keys
from fedswe.core.local import Precision
from fedswe.core.records import Vector
from fedswe.core.transfer import to_device
from fedswe.tasks.augment import Augmentation
from fedswe.tasks.batches import Batch, Batches
from fedswe.tasks.labelled_data import Labelled, chunks, resident
from fedswe.tasks.networks import NETWORKS, Network, kaiming_last_layer
from fedswe.tasks.partition import Indices
from fedswe.tasks.problem import Problem, Setting


def initial_network(model: str, kaiming: bool, shape: tuple[int, ...], classes: int, seed: int) -> Network:
    """A network of NETWORKS with the initial parameters of a seed; `kaiming`: also in the last layer."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(keys.stream_key(seed, "initial model"))
        module = NETWORKS[model](shape, classes)
        if kaiming:
            kaiming_last_layer(module)
    return Network(module)


_UNCHANGED = Augmentation()
Logits = Callable[[Vector, torch.Tensor], torch.Tensor]  # of a model [d] on inputs [n, ...]


class ClassificationProblem(Problem):
    border: torch.Tensor  # [C], the value of padding in normalised units

    def __init__(
        self,
        data: Labelled,
        parts: list[Indices],
        network: Network,
        setting: Setting,
        augmentation: Augmentation = _UNCHANGED,
        border: tuple[float, ...] | None = None,
        kept_back: Indices | None = None,
    ) -> None:
        device = setting.device
        self.m, self._seed, self.network = len(parts), setting.seed, network
        self._augmentation = augmentation
        self._border = border or (0.0,) * data.x_train.shape[1]  # on the host: it is part of the family
        self.border = torch.tensor(self._border, dtype=setting.dtype, device=device)
        self.start = network.initial().to(device=device, dtype=setting.dtype)
        self.data = resident(data, setting.dtype, device)
        self._train = self.data.x_train, self.data.y_train
        self._test = self.data.x_test, self.data.y_test
        self._kept_back = kept_back if kept_back is not None and len(kept_back) else None
        self._sizes = np.array([len(part) for part in parts])  # on the host: shapes depend on it
        self.sizes = torch.as_tensor(self._sizes, device=device)
        self._table = torch.zeros(self.m, int(self._sizes.max()), dtype=torch.int64, device=device)
        self._slots = torch.arange(self._table.shape[1], device=device)
        for i, part in enumerate(parts):
            self._table[i, : len(part)] = torch.as_tensor(part, device=device)

    def draw(self, clients: torch.Tensor, t: int, steps: int, batch_size: int) -> Batches:
        """Batches without replacement: each client shuffles its samples and takes them batch by batch; when less than
        a batch is left, it shuffles again. A client with less than a batch uses all its samples in every step.

        The shuffle is keyed by client, round and pass, so an absent client needs no state. (The released code
        continues one pass from round to round.)
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
            which = (step // per_pass[:, None]).clamp(max=passes - 1)
            shuffled = order[rows, which[:, :, None], position]
            # Crops and dropout are drawn by position in the batch: a client that uses all samples keeps their order,
            # so that its result does not depend on the other clients of the stack.
            position = torch.where((size > batch_size)[:, None, None], shuffled, position)
        index = torch.gather(self._table[clients], 1, position.flatten(1)).view_as(position)
        weight = (inside / batch[:, None]).to(self.start.dtype)
        changes = None
        if self._augmentation:
            changes = self._augmentation.draw(named("augmentation"), steps, width)
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
            inputs = batch.augment.apply(inputs, self.border if any(self._border) else None)
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
        return id(self.data), self.network.signature, bool(self._augmentation), self._border

    def joined(self, drawn: list[Batches]) -> Batches:
        return Batches.joined(drawn)

    def row_size(self, batch_size: int) -> int:
        return int(self._train[0][0].numel() * min(batch_size, self._sizes.max()))

    def full_gradients(self, x: Vector, clients: torch.Tensor) -> Vector:
        clients = clients.to(self._table.device)
        size = self.sizes[clients][:, None]
        inside = torch.arange(self._table.shape[1], device=size.device) < size
        return self.gradients(x, Batch(self._table[clients], (inside / size).to(x.dtype)))

    def state_dict(self, x: Vector) -> dict[str, torch.Tensor]:
        return self.network.parameters_at(x)

    def example(self) -> tuple[nn.Module, torch.Tensor]:
        return self.network.module, self.data.x_train[:2]

    def evaluate(self, x: Vector, logits: Logits | None = None) -> dict[str, float]:
        """Losses and accuracies; `logits` may compute the network's faster."""
        logits, scores = logits or self._logits, {}
        for name, (inputs, labels), rows in self._scored:
            size = len(labels) if rows is None else len(rows)
            loss, correct = torch.zeros((2, 1), dtype=torch.float64, device=x.device)
            # Scores need no more digits than tf32 has, which a GPU computes several times faster.
            with torch.no_grad(), arithmetic("tf32", x.device.type):
                for part in chunks(size, x.device):
                    these = part if rows is None else rows[part]
                    found = logits(x, inputs[these])
                    loss += F.cross_entropy(found, labels[these], reduction="sum")
                    correct += (found.argmax(1) == labels[these]).sum()
            scores[f"{name}_loss"] = float(loss) / size  # only here does the host wait for the device
            scores[f"{name}_accuracy"] = float(correct) / size
        return scores

    def _logits(self, x: Vector, inputs: torch.Tensor) -> torch.Tensor:
        if x.device.type != "cpu":
            return self.network.logits(x, inputs)
        # What convolutions make of 128 images stays in the cache: twice as fast, and the same bits.
        return torch.cat([self.network.logits(x, piece) for piece in torch.split(inputs, 128)])

    @cached_property
    def _scored(self) -> list[tuple[str, tuple[torch.Tensor, torch.Tensor], torch.Tensor | None]]:
        """Name, samples and which of them; None: all."""
        if self._kept_back is None:
            return [("train", self._train, None), ("test", self._test, None)]
        device = self.start.device
        given = np.setdiff1d(np.arange(len(self._train[1])), self._kept_back)
        return [
            ("train", self._train, torch.as_tensor(given, device=device)),
            ("held_out", self._train, torch.as_tensor(self._kept_back, device=device)),
            ("test", self._test, None),
        ]


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
