"""Random crop and flip, drawn per image from keyed streams, on the device that holds the images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from fedswe.core import keys


@dataclass(frozen=True)
class Augment:
    """How a batch is changed: crop offsets and flips, [..., B]; zero beyond the border of the image."""

    shift_y: torch.Tensor
    shift_x: torch.Tensor
    flip: torch.Tensor

    @staticmethod
    def joined(parts: list[Augment], pad: Callable[[torch.Tensor], torch.Tensor]) -> Augment:
        """Several one after another, each padded to a common width."""
        ys, xs, flips = ([pad(getattr(p, n)) for p in parts] for n in ("shift_y", "shift_x", "flip"))
        return Augment(torch.cat(ys), torch.cat(xs), torch.cat(flips))

    def __getitem__(self, at: int | slice | tuple[slice, int]) -> Augment:
        return Augment(self.shift_y[at], self.shift_x[at], self.flip[at])

    def apply(self, images: torch.Tensor) -> torch.Tensor:
        """Images [..., C, H, W]: pixel (y, x) comes from (y + shift_y, x' + shift_x), x' mirrored where flipped."""
        shape = images.shape
        images = images.reshape(-1, *shape[-3:])
        n, channels, height, width = images.shape
        reach = int(max(self.shift_y.abs().max(), self.shift_x.abs().max()))
        dy, dx, flip = (part.reshape(n, 1) for part in (self.shift_y, self.shift_x, self.flip))
        row = torch.arange(height, device=images.device) + dy + reach
        column = torch.arange(width, device=images.device)
        column = torch.where(flip != 0, width - 1 - column, column) + dx + reach
        # Pixels with their channels side by side are copied as one piece each.
        padded = F.pad(images.permute(0, 2, 3, 1), (0, 0, *(reach,) * 4)).flatten(1, 2)
        place = (row[:, :, None] * (width + 2 * reach) + column[:, None, :]).flatten(1)
        pixels = padded[torch.arange(n, device=images.device)[:, None], place]
        return pixels.view(n, height, width, channels).permute(0, 3, 1, 2).view(shape)


def draw(names: torch.Tensor, steps: int, batch: int, crop: int, flip: bool) -> Augment:
    """The crops and flips of a round, [n, steps, B], named by client and round."""
    bits = keys.grid(names, steps, batch)
    span = 2 * crop + 1
    # Three independent fields of one word: 20 bits each for the offsets, one for the flip.
    y = (bits & 0xFFFFF) * span >> 20
    x = (bits >> 20 & 0xFFFFF) * span >> 20
    mirrored = bits >> 40 & 1 if flip else torch.zeros_like(bits)
    return Augment((y - crop).int(), (x - crop).int(), mirrored.int())
