"""Random crop and flip, drawn from keyed streams, on the device that holds the images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch

from fedswe.core import keys


@dataclass(frozen=True)
class Augment:
    """The augmentation of a batch: crop offsets and flips, [..., B]."""

    shift_y: torch.Tensor
    shift_x: torch.Tensor
    flip: torch.Tensor

    @staticmethod
    def joined(parts: list[Augment], pad: Callable[[torch.Tensor], torch.Tensor]) -> Augment:
        """Several one after another, each padded to a common width."""
        ys, xs, flips = ([pad(getattr(p, n)) for p in parts] for n in ("shift_y", "shift_x", "flip"))
        return Augment(torch.cat(ys), torch.cat(xs), torch.cat(flips))

    def __getitem__(self, at: int | slice | torch.Tensor | tuple[int | slice, ...]) -> Augment:
        return Augment(self.shift_y[at], self.shift_x[at], self.flip[at])

    def apply(self, images: torch.Tensor, border: torch.Tensor | None = None) -> torch.Tensor:
        """Images [..., C, H, W]: pixel (y, x) comes from (y + shift_y, x' + shift_x), x' mirrored where flipped.

        Beyond the edge of the image it is `border` [C], or 0.
        """
        shape = images.shape
        images = images.reshape(-1, *shape[-3:])
        n, channels, height, width = images.shape
        dy, dx, flip = (part.reshape(n, 1) for part in (self.shift_y, self.shift_x, self.flip))
        row = torch.arange(height, device=images.device) + dy
        column = torch.arange(width, device=images.device)
        column = torch.where(flip != 0, width - 1 - column, column) + dx
        outside = ((row < 0) | (row >= height))[:, :, None] | ((column < 0) | (column >= width))[:, None, :]
        place = row.clamp(0, height - 1)[:, :, None] * width + column.clamp(0, width - 1)[:, None, :]
        # With the channels last, each pixel is copied as one piece. Nothing here waits for a GPU.
        images = images.permute(0, 2, 3, 1).flatten(1, 2)
        pixels = images[torch.arange(n, device=images.device)[:, None], place.flatten(1)]
        outside = outside.flatten(1)[:, :, None]
        pixels = pixels.masked_fill_(outside, 0.0) if border is None else torch.where(outside, border, pixels)
        return pixels.view(n, height, width, channels).permute(0, 3, 1, 2).view(shape)


@dataclass(frozen=True)
class Augmentation:
    """What is drawn: crops of images padded by `crop` pixels, and flips, once per image or per batch."""

    crop: int = 0
    flip: bool = False
    unit: Literal["image", "batch"] = "image"

    def __bool__(self) -> bool:
        return bool(self.crop or self.flip)

    def draw(self, names: torch.Tensor, steps: int, batch: int) -> Augment:
        """The crops and flips of a round, [n, steps, B], named by client and round."""
        if self.unit == "batch":
            one = draw(names, steps, 1, self.crop, self.flip)
            shape = (len(names), steps, batch)
            return Augment(one.shift_y.expand(shape), one.shift_x.expand(shape), one.flip.expand(shape))
        return draw(names, steps, batch, self.crop, self.flip)


def draw(names: torch.Tensor, steps: int, batch: int, crop: int, flip: bool) -> Augment:
    """Per image, [n, steps, B]."""
    bits = keys.grid(names, steps, batch)
    span = 2 * crop + 1
    # Three independent fields of one word: 20 bits each for the offsets, one for the flip.
    y = (bits & 0xFFFFF) * span >> 20
    x = (bits >> 20 & 0xFFFFF) * span >> 20
    mirrored = bits >> 40 & 1 if flip else torch.zeros_like(bits)
    return Augment((y - crop).int(), (x - crop).int(), mirrored.int())
