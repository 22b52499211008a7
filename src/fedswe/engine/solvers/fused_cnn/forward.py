"""One model's logits on many images, by the forward kernels of the local training: what scoring a model costs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch.nn import functional as F

from fedswe.core.local import Precision
from fedswe.engine.solvers.fused_cnn import kernels, parameters
from fedswe.engine.solvers.fused_cnn.cnn import CONV, bordered, dense_layers
from fedswe.engine.solvers.fused_cnn.solver import dense_part, knows
from fedswe.tasks.data_set import AT_A_TIME
from fedswe.tasks.problem import Problem
from fedswe.tasks.supervised_problem import SupervisedProblem


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
    if isinstance(problem, SupervisedProblem) and knows(problem) and (dense := dense_part(problem.network.module)):
        return problem.evaluate(x, _forward(dense[0], x.device).logits)
    return None


@lru_cache(maxsize=2)
def _forward(widths: tuple[int, ...], device: torch.device) -> Forward:
    """In tf32: scores need no more digits."""
    return Forward(widths, AT_A_TIME[device.type], "tf32", device)
