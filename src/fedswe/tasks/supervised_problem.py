"""The problem of a task with samples and a network: batches, gradients and scores of clients, in torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.func import grad, vmap

from fedswe.core import keys
from fedswe.core.local import Local, Precision
from fedswe.core.records import Vector, to_device
from fedswe.errors import require, warn
from fedswe.tasks.batches import Augmentation, Batch, Batches
from fedswe.tasks.client_samples import ClientSamples, Samples
from fedswe.tasks.data_set import Resident
from fedswe.tasks.losses import Objective
from fedswe.tasks.network import Network, Statistics
from fedswe.tasks.problem import Problem, Setting

_UNCHANGED = Augmentation()
_SMALL_SHUFFLE = 2**16  # numbers to sort, below which it does not matter how
Ids = npt.NDArray[np.int64]
Logits = Callable[[Vector, torch.Tensor], torch.Tensor]  # of a model [d] on inputs [n, ...]


class SupervisedProblem(Problem):
    def __init__(
        self,
        samples: ClientSamples,
        network: Network,
        objective: Objective,
        setting: Setting,
        augmentation: Augmentation = _UNCHANGED,
        border: tuple[float, ...] = (),
    ) -> None:
        self.m, self._seed, self.network = samples.m, setting.seed, network
        self.samples, self.objective = samples, objective
        self.data: Resident | None = samples.data  # the data set, if it is on the device as a whole
        self._augmentation, self._border = augmentation, border  # on the host: they are part of the family
        self.border = torch.tensor(border, dtype=setting.dtype, device=setting.device)  # [C], in normalised units
        self.start = network.initial().to(device=setting.device, dtype=setting.dtype)
        network.to(setting.device, setting.dtype)
        self._scored = samples.scored()
        self._convolves = any(isinstance(part, nn.Conv1d | nn.Conv2d | nn.Conv3d) for part in network.module.modules())

    # batches -------------------------------------------------------------------------------------------
    def steps(self, clients: Ids, local: Local) -> Any:
        return local.epochs * -(-self.samples.sizes(clients) // local.batch_size) if local.epochs else local.steps

    def draw(self, clients: torch.Tensor, t: int, steps: int | Ids, batch_size: int) -> Batches:
        """Batches without replacement: each client shuffles its samples and takes them batch by batch; when less than
        a batch is left, it shuffles again. A client with less than a batch uses all its samples in every step.

        With steps for each client, which are whole passes (local.epochs), what is left is one more, smaller batch.

        The shuffle is keyed by client, round and pass, so an absent client needs no state. (The released code
        continues one pass from round to round.)
        """
        sizes, whole = self.samples.sizes(clients.numpy()), not isinstance(steps, int)
        width = int(min(sizes.max(), batch_size))
        least = self.network.least_samples
        require(batch_size >= least, f"the model needs batches of {least} samples or more: raise local.batch_size")
        self.refuse_small(clients.numpy(), batch_size if whole else 0)
        here = self.start.device

        def named(stream: str) -> torch.Tensor:
            return to_device(keys.bits(self._seed, stream, clients, t), here)

        size = to_device(sizes, here)
        batch = size.clamp(max=batch_size)  # [n]
        most = int(np.max(steps))
        per_pass = -(-size // batch) if whole else size // batch
        step = torch.arange(most, device=here)
        offset = (step % per_pass[:, None]) * batch[:, None]  # [n, steps]
        column = torch.arange(width, device=here)
        # Samples in each batch, [n, steps] or, where all are equal, [n, 1].
        wide = (size[:, None] - offset).minimum(batch[:, None]) if whole else batch[:, None]
        inside = column < wide[:, :, None]
        position = torch.where(inside, offset[:, :, None] + column, 0)  # [n, steps, B]
        if sizes.max() > batch_size:
            names, shuffled = named("batches"), torch.empty_like(position)
            for rows in _of_similar_size(sizes):
                # Only clients with more than a batch need an order; the others of these rows are ignored below.
                longer = sizes[rows][sizes[rows] > batch_size]
                if not len(longer):
                    continue
                passes = -(-most // int((longer // batch_size).min()))
                if whole:  # the same number for all
                    passes = int(np.max(steps // -(-sizes // batch_size)))
                order = _shuffled(names[rows], size[rows], passes, int(longer.max()))  # [rows, passes, n_max]
                which = (step // per_pass[rows, None]).clamp(max=passes - 1)
                row = torch.arange(len(order), device=here)[:, None, None]
                shuffled[rows] = order[row, which[:, :, None], position[rows]]
            # Crops and dropout are drawn by position in the batch: a client that uses all samples keeps their order,
            # so that its result does not depend on the other clients of the stack.
            position = torch.where((size > batch_size)[:, None, None], shuffled, position)
        index = self.samples.index(to_device(clients, here)[:, None, None], position)
        weight = inside.to(self.start.dtype) / wide[:, :, None]
        changes = self._augmentation.draw(named("augmentation"), most, width) if self._augmentation else None
        dropout = keys.grid(named("dropout"), 1, most)[:, 0] if self.network.drops else None
        return Batches(index, weight if whole else weight[:, 0], changes, dropout)

    def refuse_small(self, clients: npt.NDArray[np.integer], batch_size: int = 0) -> None:
        """Refuse clients with fewer samples than the model needs in a batch; `batch_size`, if the last is smaller."""
        sizes, least = self.samples.sizes(clients), self.network.least_samples
        sizes = (sizes - 1) % batch_size + 1 if batch_size else sizes
        smallest = f"client {clients[sizes.argmin()]} has {sizes.min()} sample{' in its last batch' * bool(batch_size)}"
        needs = f"the model needs batches of {least} or more (BatchNorm): leave the client out, or use GroupNorm"
        require(sizes.min() >= least, f"{smallest}, {needs}")

    def joined(self, drawn: list[Batches]) -> Batches:
        return Batches.joined(drawn)

    def row_size(self, batch_size: int) -> int:
        return math.prod(self.samples.shape) * min(batch_size, self.samples.largest_size or batch_size)

    def family(self) -> object:
        if self.data is None:
            return id(self)
        loss = "cross_entropy" if self.objective.cross_entropy else id(self.objective.loss)
        return id(self.data), self.network.signature, loss, bool(self._augmentation), self._border

    # gradients -----------------------------------------------------------------------------------------
    def gradient(self, x: Vector, batch: Batch, precision: Precision = "fp32") -> Vector:
        if self.network.mixes_samples or not self.network.vmaps:  # without padding, which the samples may depend on
            batch = batch.cut(int((batch.weight > 0).sum()))
        inputs, targets = self._inputs(batch)
        x = x.detach().requires_grad_()
        with arithmetic(precision, x.device.type):
            return torch.autograd.grad(self._loss(x, inputs, targets, batch.weight, batch.dropout), x)[0]

    def gradients(self, x: Vector, batch: Batch, precision: Precision = "fp32") -> Vector:
        if self.network.stacks and (self.network.flattens or len(self.samples.shape) == 1):
            inputs, targets = self._inputs(batch)
            with arithmetic(precision, x.device.type), torch.no_grad():
                return self.network.stacked_gradients(
                    x, inputs, lambda outputs: self.objective.gradient(outputs, targets, batch.weight)
                )
        if not self._vmaps:
            return torch.stack([self.gradient(row, batch[i], precision) for i, row in enumerate(x)])
        if not self.network.mixes_samples:
            return self._mapped_gradients(x, batch, precision)
        result, widths = torch.empty_like(x), (batch.weight > 0).sum(1)
        for width in sorted(set(widths.tolist())):
            which = torch.nonzero(widths == width).flatten()
            result[which] = self._mapped_gradients(x[which], batch[which].cut(width), precision)
        return result

    @cached_property
    def _vmaps(self) -> bool:
        """Convolutions with weights of their own are 5 to 7 times slower stacked than in turn on a CPU."""
        return self.network.vmaps and not (self._convolves and self.start.device.type == "cpu")

    def _mapped_gradients(self, x: Vector, batch: Batch, precision: Precision) -> Vector:
        inputs, targets = self._inputs(batch)
        mapped = vmap(grad(self._loss), in_dims=(0, 0, 0, 0, None if batch.dropout is None else 0))
        with arithmetic(precision, x.device.type):
            result: Vector = mapped(x.detach(), inputs, targets, batch.weight, batch.dropout)
        return result

    def _inputs(self, batch: Batch) -> Samples:
        inputs, targets = self.samples.gather(batch.index)
        if batch.augment is not None:
            inputs = batch.augment.apply(inputs, self.border if any(self._border) else None)
        if inputs.ndim == 4 and inputs.device.type == "cpu" and inputs.is_floating_point():
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        return inputs, targets

    def _loss(
        self, x: Vector, inputs: torch.Tensor, targets: torch.Tensor, weight: torch.Tensor, dropout: torch.Tensor | None
    ) -> torch.Tensor:
        outputs = self.network.training_logits(x, inputs, dropout).to(x.dtype)
        return (weight * self.objective.loss(outputs, targets)).sum()

    def full_gradients(self, x: Vector, clients: torch.Tensor) -> Vector:
        sizes = self.samples.sizes(clients.cpu().numpy())
        size = to_device(sizes, self.start.device)[:, None]
        position = torch.arange(int(sizes.max()), device=size.device)
        inside = position < size
        index = self.samples.index(clients.to(size.device)[:, None], torch.where(inside, position, 0))
        return self.gradients(x, Batch(index, inside.to(x.dtype) / size))

    # scores --------------------------------------------------------------------------------------------
    def evaluate(self, x: Vector, logits: Logits | None = None) -> dict[str, float]:
        """The loss and the metrics on each set of samples; `logits` may compute the network's outputs faster."""
        statistics = self._statistics(x)
        compute = logits or (lambda x, inputs: self._logits(x, inputs, statistics))
        scores: dict[str, float] = {}
        for (samples, group), pieces in self._scored.items():
            end = f"_{group}" if group else ""
            found = self._scores(x, compute, pieces())
            scores |= {f"{samples}_{name}{end}": value for name, value in found.items()}
        return scores

    def _scores(self, x: Vector, logits: Logits, pieces: Iterator[Samples]) -> dict[str, float]:
        size, sums = 0, torch.zeros(1 + len(self.objective.metrics), dtype=torch.float64, device=x.device)
        together: dict[int, list[Samples]] = {}  # metrics of all samples together, with outputs and targets
        # Scores need no more digits than tf32 has, which a GPU computes several times faster.
        with torch.no_grad(), arithmetic("tf32", x.device.type):
            for inputs, targets in pieces:
                outputs = logits(x, inputs)
                size += len(targets)
                sums[0] += self.objective.total(outputs, targets)
                for i, metric in enumerate(self.objective.metrics.values(), 1):
                    values = torch.as_tensor(metric(outputs, targets), device=x.device)
                    if values.ndim == 0:
                        together.setdefault(i, []).append((outputs, targets))
                    else:
                        sums[i] += values.double().sum()
            means = sums / size
            for i, metric in enumerate(self.objective.metrics.values(), 1):
                if i in together:
                    everything = (torch.cat(parts) for parts in zip(*together[i], strict=True))
                    means[i] = torch.as_tensor(metric(*everything))
        return dict(zip(["loss", *self.objective.metrics], means.tolist(), strict=True))  # the host waits only here

    def _logits(self, x: Vector, inputs: torch.Tensor, statistics: Statistics) -> torch.Tensor:
        if x.device.type != "cpu" or not self._convolves:
            return self.network.logits(x, inputs, statistics)
        # What convolutions make of 128 images stays in the cache: twice as fast, and the same bits.
        return torch.cat([self.network.logits(x, piece, statistics) for piece in torch.split(inputs, 128)])

    def _statistics(self, x: Vector) -> Statistics:
        """The running statistics of BatchNorm layers for a model."""
        normalises = bool(self.network.normalising)
        batches = self.samples.calibration(self.network.least_samples) if normalises else []
        if normalises and not batches:
            warn("there are no samples here for the statistics of BatchNorm: they are those of the initial model")
        return self.network.statistics(x, batches) if batches else {}

    def example(self) -> tuple[nn.Module, torch.Tensor]:
        return self.network.module, self.samples.all_of(0)[0][:2]

    def state_dict(self, x: Vector) -> dict[str, torch.Tensor]:
        return self.network.state_dict(x, self._statistics(x))


def _of_similar_size(sizes: npt.NDArray[np.int64]) -> list[Any]:
    """Rows that are shuffled together, to the width of the largest: all, unless few have most of the samples."""
    if len(sizes) * sizes.max() <= max(_SMALL_SHUFFLE, 8 * sizes.sum()):
        return [slice(None)]
    kinds = np.frexp(sizes)[1]  # the power of two above
    return [np.flatnonzero(kinds == kind) for kind in np.unique(kinds)]


def _shuffled(names: torch.Tensor, sizes: torch.Tensor, passes: int, width: int) -> torch.Tensor:
    """Random orders of each client's samples, one per pass, padding last."""
    bits = keys.grid(names, passes, width)
    valid = torch.arange(width, device=names.device) < sizes[:, None, None]
    return torch.where(valid, bits, torch.iinfo(torch.int64).max).argsort(dim=-1, stable=True)


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
