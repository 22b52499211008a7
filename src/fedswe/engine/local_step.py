"""A local step and a local phase, for one client (x [d]) or a stack of n (x [n, d])."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from fedswe.core import transforms
from fedswe.core.records import Vector
from fedswe.core.transforms import Transform


def phase_end(
    gradient: Callable[[Vector, Any], Vector],
    x: Vector,
    batches: Iterable[Any],
    drift: Vector | None,
    lr: float | torch.Tensor,
    chain: Sequence[Transform] = (),
) -> Vector:
    """Where local training ends, one step per batch: x - lr (chain(gradient) + drift); for a stack, lr is [n, 1]."""
    start, states = x, transforms.begin(chain, x)
    for batch in batches:
        v, states = transforms.apply(chain, gradient(x, batch), states, x, start)
        if drift is not None:  # after the chain: a control variate is not a stochastic gradient
            v = v + drift
        x = torch.addcmul(x, v, lr, value=-1) if isinstance(lr, torch.Tensor) else x - lr * v
    return x
