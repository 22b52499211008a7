"""The solver: runs a stack of clients in chunks through the fused kernels, and scores models by the same kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import nn
from torch.nn import functional as F

from fedswe.core.local import Local, Precision
from fedswe.core.transforms import Clip
from fedswe.engine.solvers.fused_cnn import kernels, parameters
from fedswe.engine.solvers.fused_cnn.cnn import CONV, FusedCnn, bordered, dense_layers
from fedswe.engine.work import Stack
from fedswe.tasks.batches import Batches
from fedswe.tasks.data_set import AT_A_TIME, Resident
from fedswe.tasks.problem import Problem
from fedswe.tasks.supervised_problem import SupervisedProblem

_CHUNK = 128  # clients at a time; from 64 on, more clients are not faster
_GRAIN = 8  # a chunk holds a multiple of this many, so that a few graphs are enough for all rounds


def suits(problem: Problem, local: Local) -> bool:
    """Whether the kernels know the network and the chain: none, or one clip."""
    if (
        problem.start.dtype != torch.float32 or local.precision == "fp32"
    ):  # Triton's float32 products are slower than the library's convolutions
        return False
    chain = local.transforms
    known = not chain or (len(chain) == 1 and type(chain[0]) is Clip)
    return known and knows(problem)


def knows(problem: Problem) -> bool:
    """Whether the problem is one of the paper's CNNs, all of it trained, with labels and the cross-entropy."""
    if not isinstance(problem, SupervisedProblem) or problem.data is None or problem.network.frozen:
        return False
    labels = problem.objective.cross_entropy and problem.data.y_train.ndim == 1
    return labels and dense_part(problem.network.module) is not None


def dense_part(module: nn.Module) -> tuple[tuple[int, ...], float] | None:
    """The widths of the dense layers and the dropout before each, if this is one of the paper's CNNs, else None."""
    if type(module) is not nn.Sequential:  # another module may do more than call its layers in turn
        return None
    layers = list(module)
    kinds = [type(layer) for layer in layers]
    if kinds[:7] != [nn.Conv2d, nn.MaxPool2d, nn.ReLU] * 2 + [nn.Flatten]:  # in the order of `pooled_first`
        return None
    first, second = layers[0], layers[3]
    if not all(
        c.kernel_size == (3, 3) and c.padding == (1, 1) and c.stride == (1, 1) and c.out_channels == 32
        for c in (first, second)
    ):
        return None
    rates = {layer.p for layer in layers if isinstance(layer, nn.Dropout)}
    dense = [layer for layer in layers[7:] if isinstance(layer, nn.Linear)]
    block = [nn.Dropout, nn.Linear, nn.ReLU] if rates else [nn.Linear, nn.ReLU]
    if kinds[7:] != (block * len(dense))[:-1] or len(rates) > 1 or not all(0 < p < 1 for p in rates):
        return None
    widths = tuple(layer.out_features for layer in dense)
    powers = all(16 <= width <= 1024 and width & (width - 1) == 0 for width in widths[:-1])
    fits = first.in_channels == 3 and dense[0].in_features == 2048 and widths[-1] <= 16 and len(widths) > 1
    return (widths, rates.pop() if rates else 0.0) if fits and powers else None


def train(stack: Stack, graph: bool = True) -> torch.Tensor:
    problem, local = stack.problem, stack.local
    assert isinstance(problem, SupervisedProblem)
    dense = dense_part(problem.network.module)
    assert dense is not None
    assert problem.data is not None
    batches: Batches = stack.draw()
    width = batches.index.shape[2]
    cnn = _cnn(problem.data, *dense, _room(width), local.steps, local.precision)
    cnn.border[:3] = problem.border if len(problem.border) else 0.0  # without crops there is none
    ends = torch.empty_like(stack.start)
    labels = problem.data.y_train
    bound = stack.chain[0].norm if stack.chain and isinstance(stack.chain[0], Clip) else math.inf
    for at in range(0, len(ends), _CHUNK):
        part = slice(at, at + _CHUNK)
        n = len(ends[part])
        _fill(cnn, batches[part], labels, n, width)
        cnn.phase.lr[:n] = stack.lr[part, 0]
        cnn.phase.clip[:n] = bound
        drift = None if stack.drift is None else stack.drift[part]
        rounded = min(-(-n // _GRAIN) * _GRAIN, _CHUNK)
        ends[part] = cnn.run(stack.start[part], drift, bool(stack.chain), rounded, graph)
    return ends


def _room(width: int) -> int:
    """Batches are padded to a power of two, with weight 0."""
    return max(32, 1 << (width - 1).bit_length())


def _fill(cnn: FusedCnn, batches: Batches, labels: torch.Tensor, n: int, width: int) -> None:
    """Lay one chunk's draws out as the kernels read them, [steps, clients, batch]; rows beyond n stay as they were."""
    phase = cnn.phase
    phase.weight[:n] = 0
    phase.weight[:n, :width] = batches.weight
    phase.index[:, :n, :width] = batches.index.transpose(0, 1)
    phase.labels[:, :n, :width] = labels[batches.index].transpose(0, 1).int()
    if batches.dropout is not None:
        phase.dropout[:, :n] = batches.dropout.T
    # zero where nothing is drawn: the buffers still hold the values of an earlier run
    for name in ("shift_y", "shift_x", "flip"):
        drawn = 0 if batches.augment is None else getattr(batches.augment, name).transpose(0, 1)
        getattr(phase, name)[:, :n, :width] = drawn


@lru_cache(maxsize=2)
def _cnn(
    data: Resident, widths: tuple[int, ...], dropout: float, batch: int, steps: int, precision: Precision
) -> FusedCnn:
    return FusedCnn(data.x_train, widths, _CHUNK, batch, steps, precision, dropout)


# scores --------------------------------------------------------------------------------------------------
class Forward:
    """Buffers for so many images at a time; a model is one client of the kernels."""

    def __init__(self, widths: Sequence[int], images: int, precision: Precision, device: torch.device) -> None:
        self.layers = dense_layers(widths)
        self.dot = "tf32" if precision == "tf32" else "ieee"
        self.staged = bordered(1, images, 34, 34, 4, dtype=torch.float32, device=device)
        self.pooled1 = bordered(1, images, 18, 18, 32, dtype=torch.float32, device=device)
        self.which1 = torch.zeros(images, 256, 32, dtype=torch.int8, device=device)
        self.pooled2 = torch.zeros(images, 2048, device=device)
        self.which2 = torch.zeros(images, 2048, dtype=torch.int8, device=device)
        self.weight1, self.weight2 = torch.zeros(1, 4, 16, 32, device=device), torch.zeros(1, 9, 32, 32, device=device)

    def logits(self, x: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        """[n, classes] of a model [d] on images [n, 3, 32, 32], as many as there is room for."""
        room, n, d = len(self.pooled2), len(inputs), len(x)
        parameters.pack_conv_weights[(1, 10)](x, self.weight1, self.weight2, d)
        self.staged[0, :n, 1:-1, 1:-1, :3] = inputs.permute(0, 2, 3, 1)
        kernels.conv1_forward[(1, 2 * n)](
            self.staged, self.weight1, x[864:], self.pooled1, self.which1, room, d, PRECISION=self.dot, BM=128,
            num_warps=4,
        )  # fmt: skip
        kernels.conv2_forward[(1, -(-n // 2))](  # of an odd number, the last one with what lies behind it
            self.pooled1, self.weight2, x[CONV - 32 :], self.pooled2, self.which2, room, d, PRECISION=self.dot,
            IMAGES=2, num_warps=4,
        )  # fmt: skip
        h = self.pooled2[:n]
        for layer in self.layers:
            weight = x[layer.weight : layer.bias].view(layer.outputs, layer.inputs)
            h = F.linear(h, weight, x[layer.bias : layer.bias + layer.outputs])
            if layer is not self.layers[-1]:
                h = h.relu_()
        return h + (0.0 * x).sum()  # the kernels' maxima would hide a NaN among the weights


def scores(problem: Problem, x: torch.Tensor) -> dict[str, float] | None:
    if not isinstance(problem, SupervisedProblem) or x.dtype != torch.float32 or not knows(problem):
        return None
    if dense := dense_part(problem.network.module):
        return problem.evaluate(x, _forward(dense[0], x.device).logits)
    return None


@lru_cache(maxsize=2)
def _forward(widths: tuple[int, ...], device: torch.device) -> Forward:
    """In tf32: scores need no more digits."""
    return Forward(widths, AT_A_TIME[device.type], "tf32", device)
