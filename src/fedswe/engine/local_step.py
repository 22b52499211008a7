"""A local step and a local phase, for one client (x [d]) or a stack of n (x [n, d])."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch

from fedswe.core.records import Vector
from fedswe.tasks.problem import Precision, Problem


def descended(
    x: Vector, gradient: Vector, drift: Vector | None, lr: float | torch.Tensor, clip: float | torch.Tensor
) -> Vector:
    """One step: x - lr (clipped gradient + drift)."""
    if isinstance(clip, torch.Tensor) or clip < math.inf:
        norm = gradient.norm(dim=-1, keepdim=True).clamp(min=torch.finfo(gradient.dtype).tiny)
        gradient = gradient * (clip / norm).clamp(max=1.0)
    if drift is not None:  # after the clip: a control variate is not a stochastic gradient
        gradient = gradient + drift
    return torch.addcmul(x, gradient, lr, value=-1) if isinstance(lr, torch.Tensor) else x - lr * gradient


def phase_end(
    problem: Problem,
    x: Vector,
    batches: Iterable[Any],
    drift: Vector | None,
    lr: torch.Tensor,
    clip: float | torch.Tensor,
    precision: Precision,
) -> Vector:
    """Where n clients end, [n, d], one step per batch; lr and clip are [n, 1]."""
    for batch in batches:
        x = descended(x, problem.gradients(x, batch, precision), drift, lr, clip)
    return x
