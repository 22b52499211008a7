"""Fast local training on a GPU: the paper's CNNs with weights of their own for every client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from fedswe.engine.solver import Stack


def suits(stack: Stack) -> bool:
    """Whether the fused kernels can train this stack; everything else takes the general path."""
    if stack.start.device.type != "cuda" or stack.start.dtype != torch.float32:
        return False
    from fedswe.engine.fused import solver  # needs Triton, which comes with torch for CUDA

    return solver.suits(stack)


def train(stack: Stack) -> torch.Tensor:
    """The end models, [N, d]."""
    from fedswe.engine.fused import solver

    return solver.train(stack)
