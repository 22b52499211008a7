"""Triton kernels on rows of parameters: laid out for the convolutions, their gradient in torch's order, a step.

The shapes of weight1 and weight2 are those of `kernels`; the partial sums are what its weight gradients write.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def gather_conv_gradient(partial1, partial2, gradient, GD, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
    """Add the partial sums in order and lay them out as torch does: conv1 weight, bias, conv2 weight, bias."""
    client = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    j = i - 896
    # Tap (ky, kx) of the window's pixel (dy, dx), its position 2 dy + dx, lies at (ky + dy, kx + dx) of the patch.
    tap = ((i % 9) // 3) * 512 + (4 * (i % 3) + (i % 27) // 9) * 32 + i // 27
    second = (j % 9) * 1024 + ((j % 288) // 9) * 32 + j // 288
    second = tl.where(j < 9216, second, j)
    inside2 = (i >= 896) & (j < 9248)
    value = tl.zeros((BLOCK,), tl.float32)
    for split in range(SPLITS):
        first = partial1 + (client * SPLITS + split) * 8224
        for position in tl.static_range(4):
            shift = position * 2048 + (position // 2) * 512 + (position % 2) * 128
            value += tl.load(first + shift + tap, mask=i < 864, other=0.0)
        value += tl.load(first + 8192 + i - 864, mask=(i >= 864) & (i < 896), other=0.0)
        value += tl.load(partial2 + (client * SPLITS + split) * 9248 + second, mask=inside2, other=0.0)
    tl.store(gradient + client * GD + i, value, mask=i < 896 + 9248)


@triton.jit
def pack_conv_weights(x, weight1, weight2, D):
    """Lay a client's convolution weights out for the convolutions."""
    client = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    cell = tl.arange(0, 1024)
    source = x + client * D
    if part < 9:
        value = tl.load(source + 896 + (cell % 32) * 288 + (cell // 32) * 9 + part)
        tl.store(weight2 + client * 9216 + part * 1024 + cell, value.to(weight2.dtype.element_ty))
    else:
        for row in tl.static_range(4):
            at = tl.arange(0, 512)
            k, out = at // 32, at % 32
            real = (k % 4 < 3) & (k // 4 < 3) & (row < 3)
            first = tl.load(source + out * 27 + (k % 4) * 9 + row * 3 + k // 4, mask=real, other=0.0)
            tl.store(weight1 + client * 2048 + row * 512 + at, first.to(weight1.dtype.element_ty))


@triton.jit
def descend(
    x, low, gradient, drift, lr, scale, SIZE, D, GD, OFFSET, GOFFSET, HAS_DRIFT: tl.constexpr, BLOCK: tl.constexpr
):
    """x -= lr (scale * gradient + drift) on one stretch of every client's parameters; keep a low-precision copy."""
    client = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = i < SIZE
    g = tl.load(gradient + client * GD + GOFFSET + i, mask=inside, other=0.0).to(tl.float32)
    g = g * tl.load(scale + client)
    place = client * D + OFFSET + i
    if HAS_DRIFT:
        g += tl.load(drift + place, mask=inside, other=0.0)
    value = tl.load(x + place, mask=inside, other=0.0) - tl.load(lr + client) * g
    tl.store(x + place, value, mask=inside)
    tl.store(low + place, value.to(low.dtype.element_ty), mask=inside)
