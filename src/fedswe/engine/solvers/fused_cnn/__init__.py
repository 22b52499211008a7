"""Fast local training and scoring on a GPU: the paper's CNNs, each client with its own weights.

Covers chains that are empty or one clip; others take the next solver. The kernels need Triton, which comes with torch
for CUDA, so they are imported when a GPU is in use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from fedswe.core.local import Local
    from fedswe.engine.work import Stack
    from fedswe.tasks.problem import Problem


def _on_gpu(x: torch.Tensor) -> bool:
    return x.device.type == "cuda" and x.dtype == torch.float32


def suits(problem: Problem, local: Local) -> bool:
    if not _on_gpu(problem.start):
        return False
    from fedswe.engine.solvers.fused_cnn import solver

    return solver.fits(problem, local)


def train(stack: Stack) -> torch.Tensor:
    from fedswe.engine.solvers.fused_cnn import solver

    return solver.train(stack)


def scores(problem: Problem, x: torch.Tensor) -> dict[str, float] | None:
    if not _on_gpu(x):
        return None
    from fedswe.engine.solvers.fused_cnn import forward

    return forward.scores(problem, x)
