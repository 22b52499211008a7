"""Triton kernels for the paper's convolutions with weights of their own for every client.

Shapes, per client c of n and image b of B:

    staged   [n, B, 34, 34, 4]   the augmented image with a zero border, channels last, one channel of padding
    pooled1  [n, B, 18, 18, 32]  relu(maxpool(conv1)), channels last, with a zero border
    which1   [n, B, 256, 32]     which of the four pixels of a pooling window won, 0..3
    pooled2  [n, B, 2048]        relu(maxpool(conv2)), in torch's order (channel, row, column)
    which2   [n, B, 2048]
    grad2    [n, B, 18, 18, 32]  gradient at conv2's output, unpooled, with a zero border
    grad1    [n, B, 256, 32]     gradient at pooled1, where its relu is open
    weight1  [n, 4, 16, 32]      (row, 4 * column + channel, out), zero where row, column or channel is 3
    weight2  [n, 9, 32, 32]      (tap, in, out)

A convolution is a sum of matrix products, one per tap, of shifted pixels [pixels, in] with weights [in, out]; pooling
is fused by computing the four pixels of each window apart and taking their maximum. Borders keep every load in range.
Nothing is added with atomics: partial sums over images are written apart and added in a fixed order.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def stage(images, index, shift_y, shift_x, flip, border, staged, H: tl.constexpr, BLOCK: tl.constexpr):
    """Gather, crop and flip: staged[y + 1, x + 1, ch] = images[index, ch, y + dy, x' + dx], border[ch] outside."""
    image = tl.program_id(0).to(tl.int64)  # client * B + b
    source = images + tl.load(index + image) * (3 * H * H)
    dy, dx = tl.load(shift_y + image), tl.load(shift_x + image)
    flipped = tl.load(flip + image)
    for start in range(0, H * H * 4, BLOCK):
        cell = start + tl.arange(0, BLOCK)
        ch, x, y = cell % 4, (cell // 4) % H, cell // (4 * H)
        sx = tl.where(flipped != 0, H - 1 - x, x) + dx
        sy = y + dy
        inside = (sx >= 0) & (sx < H) & (sy >= 0) & (sy < H) & (ch < 3)
        value = tl.load(source + ch * (H * H) + sy * H + sx, mask=inside, other=0.0)
        value = tl.where(inside, value, tl.load(border + ch))
        tl.store(staged + image * ((H + 2) * (H + 2) * 4) + ((y + 1) * (H + 2) + x + 1) * 4 + ch, value)


@triton.jit
def conv1_forward(staged, weight1, bias, pooled1, which1, B, D, PRECISION: tl.constexpr, BM: tl.constexpr):
    """pooled1 = relu(max over the window of conv1 + bias), 3 -> 32 channels, 32x32 -> 16x16."""
    client = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    blocks: tl.constexpr = 256 // BM
    image = client * B + part // blocks
    pixel = (part % blocks) * BM + tl.arange(0, BM)
    y, x = pixel // 16, pixel % 16
    k, out = tl.arange(0, 16), tl.arange(0, 32)
    source = staged + image * (34 * 34 * 4) + (2 * y[:, None] * 34 + 2 * x[:, None]) * 4 + k[None, :]
    weights = weight1 + client * (4 * 16 * 32) + k[:, None] * 32 + out[None, :]
    w0, w1, w2 = tl.load(weights), tl.load(weights + 512), tl.load(weights + 1024)
    best = tl.full((BM, 32), float("-inf"), tl.float32)
    which = tl.zeros((BM, 32), tl.int32)
    for position in tl.static_range(4):
        shift = source + ((position // 2) * 34 + position % 2) * 4
        value = tl.dot(tl.load(shift), w0, input_precision=PRECISION)
        value = tl.dot(tl.load(shift + 34 * 4), w1, value, input_precision=PRECISION)
        value = tl.dot(tl.load(shift + 2 * 34 * 4), w2, value, input_precision=PRECISION)
        which = tl.where(value > best, position, which)
        best = tl.maximum(value, best)
    best = tl.maximum(best + tl.load(bias + client * D + out)[None, :], 0.0)
    target = image * (18 * 18 * 32) + ((y[:, None] + 1) * 18 + x[:, None] + 1) * 32 + out[None, :]
    tl.store(pooled1 + target, best.to(pooled1.dtype.element_ty))
    tl.store(which1 + image * (256 * 32) + pixel[:, None] * 32 + out[None, :], which.to(tl.int8))


@triton.jit
def conv2_forward(pooled1, weight2, bias, pooled2, which2, B, D, PRECISION: tl.constexpr, IMAGES: tl.constexpr):
    """pooled2 = relu(max over the window of conv2 + bias), 32 -> 32 channels, 16x16 -> 8x8."""
    client = tl.program_id(0).to(tl.int64)
    row = tl.arange(0, 64 * IMAGES)
    image = client * B + tl.program_id(1) * IMAGES + row // 64
    pixel = row % 64
    y, x = pixel // 8, pixel % 8
    ch = tl.arange(0, 32)
    source = pooled1 + image[:, None] * (18 * 18 * 32) + (2 * y[:, None] * 18 + 2 * x[:, None]) * 32 + ch[None, :]
    weights = weight2 + client * (9 * 32 * 32) + ch[:, None] * 32 + ch[None, :]
    v0 = tl.zeros((64 * IMAGES, 32), tl.float32)
    v1 = tl.zeros((64 * IMAGES, 32), tl.float32)
    v2 = tl.zeros((64 * IMAGES, 32), tl.float32)
    v3 = tl.zeros((64 * IMAGES, 32), tl.float32)
    for py in tl.static_range(4):
        for px in tl.static_range(4):
            tile = tl.load(source + (py * 18 + px) * 32)
            # This pixel is tap (py - dy, px - dx) of the window's pixel (dy, dx).
            if py < 3 and px < 3:
                v0 = tl.dot(tile, tl.load(weights + (py * 3 + px) * 1024), v0, input_precision=PRECISION)
            if py < 3 and px > 0:
                v1 = tl.dot(tile, tl.load(weights + (py * 3 + px - 1) * 1024), v1, input_precision=PRECISION)
            if py > 0 and px < 3:
                v2 = tl.dot(tile, tl.load(weights + (py * 3 - 3 + px) * 1024), v2, input_precision=PRECISION)
            if py > 0 and px > 0:
                v3 = tl.dot(tile, tl.load(weights + (py * 3 - 3 + px - 1) * 1024), v3, input_precision=PRECISION)
    which = tl.where(v1 > v0, 1, 0)
    best = tl.maximum(v0, v1)
    which = tl.where(v2 > best, 2, which)
    best = tl.maximum(best, v2)
    which = tl.where(v3 > best, 3, which)
    best = tl.maximum(best, v3)
    best = tl.maximum(best + tl.load(bias + client * D + ch)[None, :], 0.0)
    target = image[:, None] * 2048 + ch[None, :] * 64 + pixel[:, None]
    tl.store(pooled2 + target, best.to(pooled2.dtype.element_ty))
    tl.store(which2 + target, which.to(tl.int8))


@triton.jit
def unpool2(gradient, pooled2, which2, grad2):
    """Send the gradient at pooled2 back to the winning pixel of each window, where the relu is open."""
    image = tl.program_id(0).to(tl.int64)
    pixel, ch = tl.arange(0, 64), tl.arange(0, 32)
    y, x = pixel // 8, pixel % 8
    source = image * 2048 + ch[None, :] * 64 + pixel[:, None]
    open_ = tl.load(pooled2 + source) > 0
    value = tl.where(open_, tl.load(gradient + source).to(tl.float32), 0.0).to(grad2.dtype.element_ty)
    which = tl.load(which2 + source)
    target = grad2 + image * (18 * 18 * 32) + ((2 * y[:, None] + 1) * 18 + 2 * x[:, None] + 1) * 32 + ch[None, :]
    for position in tl.static_range(4):
        tl.store(target + ((position // 2) * 18 + position % 2) * 32, tl.where(which == position, value, 0.0))


@triton.jit
def conv2_weight_gradient(
    pooled1, grad2, partial, B: tl.constexpr, SPLITS: tl.constexpr, PRECISION: tl.constexpr, BM: tl.constexpr
):
    """Partial sums over a share of the images: partial[(tap, in, out)] and, behind them, the bias.

    Four neighbouring pixels are 128 neighbouring numbers, so one tile of pooled1 serves the three taps of a row (the
    fourth is not stored), and with three rows of grad2 all nine: the wide tile is moved once, the narrow ones thrice.
    """
    client = tl.program_id(0).to(tl.int64)
    split = tl.program_id(1)
    share: tl.constexpr = B // SPLITS
    out, k = tl.arange(0, 32), tl.arange(0, 128)
    a0 = tl.zeros((128, 32), tl.float32)
    a1 = tl.zeros((128, 32), tl.float32)
    a2 = tl.zeros((128, 32), tl.float32)
    bias = tl.zeros((32,), tl.float32)
    blocks: tl.constexpr = 256 // BM
    for step in range(share * blocks):
        image = client * B + split * share + step // blocks
        pixel = (step % blocks) * BM + tl.arange(0, BM)
        place = image * (18 * 18 * 32) + ((pixel // 16) * 18 + pixel % 16) * 32
        tile = tl.load(pooled1 + place[None, :] + 18 * 32 + k[:, None])  # rows 1..16: the border is zero
        rows = grad2 + place[:, None] + 32 + out[None, :]
        g = tl.load(rows + 18 * 32)
        bias += tl.sum(g.to(tl.float32), 0)
        # Tap row ky saw pooled1's row r for the output row r + 1 - ky; beyond the image grad2 is zero.
        a0 = tl.dot(tile, tl.load(rows + 36 * 32), a0, input_precision=PRECISION)
        a1 = tl.dot(tile, g, a1, input_precision=PRECISION)
        a2 = tl.dot(tile, tl.load(rows), a2, input_precision=PRECISION)
    target = partial + (client * SPLITS + split) * 9248
    cell = k[:, None] * 32 + out[None, :]
    real = k[:, None] < 96
    tl.store(target + cell, a0, mask=real)
    tl.store(target + 3072 + cell, a1, mask=real)
    tl.store(target + 6144 + cell, a2, mask=real)
    tl.store(target + 9216 + out, bias)


@triton.jit
def conv2_input_gradient(grad2, weight2, pooled1, grad1, B, PRECISION: tl.constexpr, BM: tl.constexpr):
    """grad1 = conv2's transposed convolution of grad2, where pooled1's relu is open."""
    client = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    blocks: tl.constexpr = 256 // BM
    image = client * B + part // blocks
    pixel = (part % blocks) * BM + tl.arange(0, BM)
    y, x = pixel // 16, pixel % 16
    ch = tl.arange(0, 32)
    place = image * (18 * 18 * 32) + (y[:, None] * 18 + x[:, None]) * 32 + ch[None, :]
    weights = weight2 + client * (9 * 32 * 32) + ch[None, :] * 32 + ch[:, None]  # transposed: [out, in]
    value = tl.zeros((BM, 32), tl.float32)
    for tap in tl.static_range(9):
        # The output pixel that saw this input through tap (ky, kx) lies at (y + 1 - ky, x + 1 - kx).
        shift = ((2 - tap // 3) * 18 + 2 - tap % 3) * 32
        value = tl.dot(tl.load(grad2 + place + shift), tl.load(weights + tap * 1024), value, input_precision=PRECISION)
    open_ = tl.load(pooled1 + place + 19 * 32) > 0
    target = grad1 + image * (256 * 32) + pixel[:, None] * 32 + ch[None, :]
    tl.store(target, tl.where(open_, value, 0.0).to(grad1.dtype.element_ty))


@triton.jit
def conv1_weight_gradient(
    staged, grad1, which1, partial, B: tl.constexpr, SPLITS: tl.constexpr, PRECISION: tl.constexpr,
    BM: tl.constexpr,
):  # fmt: skip
    """Partial sums over a share of the images: partial[(position, row, 4 * column + channel, out)], then the bias.

    One patch of 4x4 pixels holds what all four pixels of a window saw, so it is loaded once; each position has a sum of
    its own, and `gather_conv_gradient` finds the nine taps in each.
    """
    client = tl.program_id(0).to(tl.int64)
    split = tl.program_id(1)
    share: tl.constexpr = B // SPLITS
    k, out = tl.arange(0, 64), tl.arange(0, 32)
    reach = (k // 16) * (34 * 4) + k % 16
    p0 = tl.zeros((64, 32), tl.float32)
    p1 = tl.zeros((64, 32), tl.float32)
    p2 = tl.zeros((64, 32), tl.float32)
    p3 = tl.zeros((64, 32), tl.float32)
    bias = tl.zeros((32,), tl.float32)
    blocks: tl.constexpr = 256 // BM
    for step in range(share * blocks):
        image = client * B + split * share + step // blocks
        pixel = (step % blocks) * BM + tl.arange(0, BM)
        cell = image * (256 * 32) + pixel[:, None] * 32 + out[None, :]
        g = tl.load(grad1 + cell)
        which = tl.load(which1 + cell)
        bias += tl.sum(g.to(tl.float32), 0)
        corner = (2 * (pixel // 16) * 34 + 2 * (pixel % 16)) * 4
        patch = tl.load(staged + image * (34 * 34 * 4) + corner[None, :] + reach[:, None])
        p0 = tl.dot(patch, tl.where(which == 0, g, 0.0).to(g.dtype), p0, input_precision=PRECISION)
        p1 = tl.dot(patch, tl.where(which == 1, g, 0.0).to(g.dtype), p1, input_precision=PRECISION)
        p2 = tl.dot(patch, tl.where(which == 2, g, 0.0).to(g.dtype), p2, input_precision=PRECISION)
        p3 = tl.dot(patch, tl.where(which == 3, g, 0.0).to(g.dtype), p3, input_precision=PRECISION)
    target = partial + (client * SPLITS + split) * 8224
    place = k[:, None] * 32 + out[None, :]
    tl.store(target + place, p0)
    tl.store(target + 2048 + place, p1)
    tl.store(target + 4096 + place, p2)
    tl.store(target + 6144 + place, p3)
    tl.store(target + 8192 + out, bias)


@triton.jit
def head(hidden, weight, bias, labels, sample_weight, d_hidden, d_weight, d_bias, D, GD, SCALE: tl.constexpr,
         B: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, CLASSES: tl.constexpr,
         PRECISION: tl.constexpr):  # fmt: skip
    """The last layer, the cross-entropy and all their gradients, one client per program, ROWS samples at a time.

    `hidden` is what relu and dropout let through, times SCALE: where it is positive, both let the gradient through.
    """
    client = tl.program_id(0).to(tl.int64)
    k, c = tl.arange(0, WIDTH), tl.arange(0, 16)
    real = c < CLASSES
    w = tl.load(weight + client * D + c[:, None] * WIDTH + k[None, :], mask=real[:, None], other=0.0)
    w = w.to(hidden.dtype.element_ty)
    offset = tl.load(bias + client * D + c, mask=real, other=float("-inf"))
    dw = tl.zeros((16, WIDTH), tl.float32)
    db = tl.zeros((16,), tl.float32)
    for first in range(0, B, ROWS):
        b = client * B + first + tl.arange(0, ROWS)
        cell = b[:, None] * WIDTH + k[None, :]
        h = tl.load(hidden + cell)
        logits = tl.dot(h, tl.trans(w), input_precision=PRECISION) + offset[None, :]
        logits -= tl.max(logits, 1)[:, None]
        p = tl.exp(logits)
        p = p / tl.sum(p, 1)[:, None]
        hit = c[None, :] == tl.load(labels + b)[:, None]
        g = (p - tl.where(hit, 1.0, 0.0)) * tl.load(sample_weight + b)[:, None]
        db += tl.sum(g, 0)
        g = g.to(h.dtype)
        dw = tl.dot(tl.trans(g), h, dw, input_precision=PRECISION)
        dh = tl.where(h > 0, tl.dot(g, w, input_precision=PRECISION) * SCALE, 0.0)
        tl.store(d_hidden + cell, dh.to(h.dtype))
    tl.store(d_bias + client * GD + c, db, mask=real)
    tl.store(d_weight + client * GD + c[:, None] * WIDTH + k[None, :], dw, mask=real[:, None])
