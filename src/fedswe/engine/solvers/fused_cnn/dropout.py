"""Keyed dropout as a Triton kernel: the units of `tasks.networks.kept`, named by client, step, layer, sample and unit.

No mask is kept. The kernel runs on the output of a relu, so behind it a number is positive exactly where both the relu
and the dropout let it through, and that is where the gradient passes on the way back.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

from fedswe.core.keys_cuda import extend


@triton.jit
def _drop(h, names, B, UNITS: tl.constexpr, LAYER: tl.constexpr, FIRST: tl.constexpr, SCALE: tl.constexpr,
          BLOCK: tl.constexpr):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)  # client * B + sample
    unit = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    name = extend(tl.load(names + row // B).to(tl.uint64, bitcast=True), LAYER)
    name = extend(name, (row % B).to(tl.uint64))
    stays = (extend(name, unit.to(tl.uint64)) >> 11) >= FIRST
    place = h + row * UNITS + unit
    value = tl.load(place)
    tl.store(place, tl.where(stays, value.to(tl.float32) * SCALE, 0.0).to(value.dtype))


def drop(h: torch.Tensor, names: torch.Tensor, layer: int, p: float) -> None:
    """Leave units of h [n, B, units] out, each with probability p, in place; the others grow by 1/(1 - p)."""
    n, batch, units = h.shape
    block = min(units, 1024)
    first = math.ceil(p * 2**53)  # a fraction of 53 bits is at least p from here on
    _drop[(n * batch, units // block)](
        h, names, batch, UNITS=units, LAYER=layer, FIRST=first, SCALE=1.0 / (1.0 - p), BLOCK=block
    )
