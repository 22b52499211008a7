"""Fast local training and scoring on a GPU: the paper's CNNs with weights of their own for every client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from fedswe.engine.work import Stack
    from fedswe.tasks.problem import Problem


def suits(stack: Stack) -> bool:
    """Whether the fused kernels can train this stack; everything else takes the general path."""
    if stack.start.device.type != "cuda" or stack.start.dtype != torch.float32:
        return False
    from fedswe.engine.solvers.fused_cnn import solver  # needs Triton, which comes with torch for CUDA

    return solver.suits(stack)


def train(stack: Stack) -> torch.Tensor:
    """The end models, [N, d]."""
    from fedswe.engine.solvers.fused_cnn import solver

    return solver.train(stack)


def scores(problem: Problem, x: torch.Tensor) -> dict[str, float]:
    """The problem's scores of a model, by the fused kernels where they can."""
    if x.device.type != "cuda" or x.dtype != torch.float32:
        return problem.evaluate(x)
    from fedswe.engine.solvers.fused_cnn import forward

    return forward.scores(problem, x)
