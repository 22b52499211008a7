"""`keys.grid` as one kernel: on a GPU the chain of small integer operations would cost more to launch than to run."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def _mix(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    return z ^ (z >> 31)


@triton.jit
def extend(h, counter):
    """`keys.extend` by one counter; both uint64."""
    return _mix(_mix(h ^ counter) + 0x9E3779B97F4A7C15)


@triton.jit
def _grid(names, out, A, B, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)  # i * A + a
    b = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    h = tl.load(names + row // A).to(tl.uint64, bitcast=True)
    h = extend(extend(h, (row % A).to(tl.uint64)), b.to(tl.uint64))
    tl.store(out + row * B + b, h.to(tl.int64, bitcast=True), mask=b < B)


def grid(names: torch.Tensor, a: int, b: int) -> torch.Tensor:
    out = torch.empty(len(names), a, b, dtype=torch.int64, device=names.device)
    _grid[(len(names) * a, -(-b // 1024))](names, out, a, b, BLOCK=1024)
    return out
