"""Local SGD of many clients at once on the paper's CNNs, every client with weights of its own.

The two convolutions run in the Triton kernels beside this file, hidden dense layers as batched matrix products, the
last layer with the loss in one kernel. All buffers have the size of one chunk of clients, so a whole local phase can
be captured once as a CUDA graph and replayed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from fedswe.core.local import Precision
from fedswe.engine.solvers.cuda_graph import Graphs
from fedswe.engine.solvers.fused_cnn import kernels, parameters
from fedswe.engine.solvers.fused_cnn.dropout import drop

CONV = 896 + 9248  # parameters of the two convolutions
_SPLITS = 8  # shares of a batch whose convolution gradients are summed apart
_HEAD = 128 * 128  # numbers of the last hidden layer at a time: what fits the registers
_ALIGN = 64  # rows of parameters start at multiples of this, for the matrix units


@dataclass(frozen=True)
class Dense:
    """One dense layer and where its parameters lie in a client's row."""

    inputs: int
    outputs: int
    weight: int
    bias: int


def dense_layers(widths: Sequence[int]) -> list[Dense]:
    """The layers 2048 -> widths[0] -> ... behind the convolutions, as torch flattens them."""
    layers, at, inputs = [], CONV, 2048
    for outputs in widths:
        layers.append(Dense(inputs, outputs, at, at + inputs * outputs))
        at, inputs = at + (inputs + 1) * outputs, outputs
    return layers


def bordered(*shape: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Zeros, with room behind them: tiles of four pixels reach up to two rows beyond the last image."""
    size = math.prod(shape)
    return torch.zeros(size + 2 * shape[-1] * shape[-2], dtype=dtype, device=device)[:size].view(shape)


@dataclass
class Phase:
    """The inputs of one local phase, with room for `clients`; [steps, clients, batch] where not said otherwise."""

    index: torch.Tensor  # int64, samples of the data set
    labels: torch.Tensor  # int32
    shift_y: torch.Tensor  # int32, crop offsets
    shift_x: torch.Tensor
    flip: torch.Tensor  # int32, 0 or 1
    dropout: torch.Tensor  # int64 [steps, clients], random bits that name the units to leave out
    weight: torch.Tensor  # float32 [clients, batch], 0 on padding
    lr: torch.Tensor  # float32 [clients]
    clip: torch.Tensor  # float32 [clients], infinity = off


class FusedCnn:
    """Buffers and kernels for one chunk of clients."""

    def __init__(
        self,
        images: torch.Tensor,
        widths: Sequence[int],
        clients: int,
        batch: int,
        steps: int,
        precision: Precision,
        dropout: float = 0.0,  # before every dense layer
    ) -> None:
        device = images.device
        self.B, self.steps, self.dropout = batch, steps, dropout
        self.layers = dense_layers(widths)
        self.d = self.layers[-1].bias + self.layers[-1].outputs
        self.D = -(-self.d // _ALIGN) * _ALIGN
        self.precision = precision
        self.dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        self.dot = "tf32" if precision == "tf32" else "ieee"
        # Pixels at a time in the two weight gradients. They run with num_stages=1: with loads pipelined (2 or 3
        # stages) Triton 3.6 compiles conv2_weight_gradient to code whose sums differ from run to run.
        self.tile = 128 if precision == "bf16" else 64
        self.images = images.to(self.dtype).contiguous()
        n, B = clients, batch

        def low(*shape: int) -> torch.Tensor:
            return torch.zeros(*shape, dtype=self.dtype, device=device)

        def single(*shape: int) -> torch.Tensor:
            return torch.zeros(*shape, dtype=torch.float32, device=device)

        self.x, self.drift, self.low = single(n, self.D), single(n, self.D), low(n, self.D)
        self.staged = bordered(n, B, 34, 34, 4, dtype=self.dtype, device=device)
        self.pooled1, self.grad2 = (bordered(n, B, 18, 18, 32, dtype=self.dtype, device=device) for _ in range(2))
        self.which1 = torch.zeros(n, B, 256, 32, dtype=torch.int8, device=device)
        self.grad1 = low(n, B, 256, 32)
        self.pooled2 = low(n, B, 2048)
        self.which2 = torch.zeros(n, B, 2048, dtype=torch.int8, device=device)
        self.weight1, self.weight2 = low(n, 4, 16, 32), low(n, 9, 32, 32)
        self.partial1, self.partial2 = single(n, _SPLITS, 8224), single(n, _SPLITS, 9248)
        hidden, last = self.layers[:-1], self.layers[-1]
        self.small = single(n, CONV + sum(layer.outputs for layer in hidden) + (last.inputs + 1) * last.outputs)
        self.d_hidden = low(n, B, last.inputs)
        self.scale = torch.ones(n, dtype=torch.float32, device=device)
        self.border = low(4)  # the colour beyond the image; the fourth channel is padding

        def whole(*shape: int) -> torch.Tensor:
            return torch.zeros(*shape, dtype=torch.int32, device=device)

        self.phase = Phase(
            torch.zeros(steps, n, B, dtype=torch.int64, device=device),
            whole(steps, n, B), whole(steps, n, B), whole(steps, n, B), whole(steps, n, B),
            torch.zeros(steps, n, dtype=torch.int64, device=device),
            single(n, B), single(n), single(n),
        )  # fmt: skip
        self._graphs = Graphs()

    # one local phase -----------------------------------------------------------------------------------
    def run(
        self, start: torch.Tensor, drift: torch.Tensor | None, clipped: bool, clients: int, graph: bool = True
    ) -> torch.Tensor:
        """From start [n, d] through all steps of `self.phase`; the end models [n, d], a view until the next call.

        Runs the first `clients` >= n places, so that calls of similar size share a captured graph.
        """
        n = len(start)
        self.x[:n, : self.d] = start
        if drift is not None:
            self.drift[:n, : self.d] = drift
        if not clipped:
            self.scale.fill_(1.0)  # an earlier phase may have left what it clipped by
        kind = (clients, drift is not None, clipped)
        if graph:
            self._graphs.run(kind, lambda: self._all_steps(*kind))
        else:
            self._all_steps(*kind)
        return self.x[:n, : self.d]

    def _all_steps(self, n: int, drifting: bool, clipped: bool) -> None:
        allowed = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = self.precision == "tf32"
        try:
            self._steps(n, drifting, clipped)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = allowed

    def _steps(self, n: int, drifting: bool, clipped: bool) -> None:
        self.low[:n].copy_(self.x[:n])
        for step in range(self.steps):
            self._step(n, step, drifting, clipped)

    def _step(self, n: int, step: int, drifting: bool, clipped: bool) -> None:
        B, D, phase = self.B, self.D, self.phase
        dot = {"PRECISION": self.dot}
        bias1, bias2 = self.x[:, 864:], self.x[:, 896 + 9216 :]
        parameters.pack_conv_weights[(n, 10)](self.x, self.weight1, self.weight2, D)
        kernels.stage[(n * B,)](
            self.images, phase.index[step], phase.shift_y[step], phase.shift_x[step], phase.flip[step], self.border,
            self.staged, H=32, BLOCK=1024,
        )  # fmt: skip
        kernels.conv1_forward[(n, B * 2)](
            self.staged, self.weight1, bias1, self.pooled1, self.which1, B, D, BM=128, num_warps=4, **dot
        )
        kernels.conv2_forward[(n, B // 2)](
            self.pooled1, self.weight2, bias2, self.pooled2, self.which2, B, D, IMAGES=2, num_warps=4, **dot
        )
        d_pooled2, gradients = self._dense(n, step)
        kernels.unpool2[(n * B,)](d_pooled2, self.pooled2, self.which2, self.grad2, num_warps=4)
        kernels.conv2_weight_gradient[(n, _SPLITS)](
            self.pooled1, self.grad2, self.partial2, B, _SPLITS, BM=self.tile, num_warps=4, num_stages=1, **dot
        )
        kernels.conv2_input_gradient[(n, B * 2)](
            self.grad2, self.weight2, self.pooled1, self.grad1, B, BM=128, num_warps=4, **dot
        )
        kernels.conv1_weight_gradient[(n, _SPLITS)](
            self.staged, self.grad1, self.which1, self.partial1, B, _SPLITS, BM=self.tile, num_warps=4, num_stages=1,
            **dot,
        )  # fmt: skip
        parameters.gather_conv_gradient[(n, -(-CONV // 1024))](
            self.partial1, self.partial2, self.small, self.small.shape[1], _SPLITS, BLOCK=1024
        )
        if clipped:
            squares = self.small[:n].square().sum(1)
            for g in gradients:
                squares += torch.linalg.vector_norm(g, dim=(1, 2), dtype=torch.float32).square()
            self.scale[:n] = (phase.clip[:n] / squares.sqrt().clamp(min=1e-30)).clamp(max=1.0)
        self._descend(n, gradients, drifting)

    def _dense(self, n: int, step: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Forward and backward through the dense layers: the gradient at pooled2 and at each hidden weight."""
        hidden, last = self.layers[:-1], self.layers[-1]
        grown = 1.0 / (1.0 - self.dropout)
        inputs, h = [], self._dropped(self.pooled2[:n], step, 0)
        for number, layer in enumerate(hidden):
            inputs.append(h)
            bias = self.low[:n, layer.bias : layer.bias + layer.outputs].unsqueeze(1)
            h = torch.baddbmm(bias, h, self._weight(n, layer).transpose(1, 2)).relu_()
            h = self._dropped(h, step, number + 1)
        at = self.small.shape[1] - (last.inputs + 1) * last.outputs
        kernels.head[(n,)](
            h, self.x[:, last.weight :], self.x[:, last.bias :], self.phase.labels[step], self.phase.weight,
            self.d_hidden, self.small[:, at:], self.small[:, at + last.inputs * last.outputs :], self.D,
            self.small.shape[1], SCALE=grown, B=self.B, ROWS=min(self.B, _HEAD // last.inputs), WIDTH=last.inputs,
            CLASSES=last.outputs, PRECISION=self.dot, num_warps=8, num_stages=1,
        )  # fmt: skip
        gradient, gradients, end = self.d_hidden[:n], [], at
        for layer, before in zip(reversed(hidden), reversed(inputs), strict=True):
            gradients.append(torch.bmm(gradient.transpose(1, 2), before))
            self.small[:n, end - layer.outputs : end] = gradient.sum(1, dtype=torch.float32)
            end -= layer.outputs
            gradient = torch.bmm(gradient, self._weight(n, layer))
            if self.dropout:
                gradient *= grown
            if layer is not hidden[0]:  # pooled2's relu is undone with its pooling
                gradient = torch.where(before > 0, gradient, 0)
        return gradient, gradients[::-1]

    def _dropped(self, h: torch.Tensor, step: int, number: int) -> torch.Tensor:
        """The input of a dense layer, with units left out in place."""
        if self.dropout:
            drop(h, self.phase.dropout[step], number, self.dropout)
        return h

    def _weight(self, n: int, layer: Dense) -> torch.Tensor:
        return self.low[:n, layer.weight : layer.bias].view(n, layer.outputs, layer.inputs)

    def _descend(self, n: int, gradients: list[torch.Tensor], drifting: bool) -> None:
        stride = self.small.shape[1]
        self._descend_stretch(n, self.small, stride, 0, 0, CONV, drifting)
        at = CONV
        for layer, gradient in zip(self.layers[:-1], gradients, strict=True):
            size = layer.inputs * layer.outputs
            self._descend_stretch(n, gradient, size, 0, layer.weight, size, drifting)
            self._descend_stretch(n, self.small, stride, at, layer.bias, layer.outputs, drifting)
            at += layer.outputs
        self._descend_stretch(n, self.small, stride, at, self.layers[-1].weight, stride - at, drifting)

    def _descend_stretch(
        self, n: int, gradient: torch.Tensor, stride: int, at: int, offset: int, size: int, drifting: bool
    ) -> None:
        parameters.descend[(n, -(-size // 1024))](
            self.x, self.low, gradient, self.drift, self.phase.lr, self.scale, size, self.D, stride, offset, at,
            HAS_DRIFT=drifting, BLOCK=1024,
        )  # fmt: skip
