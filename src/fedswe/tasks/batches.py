"""The samples that clients train on in a round, and their augmentation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Self

import torch
from torch.nn import functional as F

from fedswe.core import keys


@dataclass(frozen=True)
class Augment:
    """The augmentation of a batch: crop offsets and flips, [..., B]."""

    shift_y: torch.Tensor
    shift_x: torch.Tensor
    flip: torch.Tensor

    def __getitem__(self, at: Any) -> Augment:
        return Augment(*(part[at] for part in vars(self).values()))

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
        bits = keys.grid(names, steps, batch if self.unit == "image" else 1)
        span = 2 * self.crop + 1
        # Three independent fields of one word: 20 bits each for the offsets, one for the flip.
        y = (bits & 0xFFFFF) * span >> 20
        x = (bits >> 20 & 0xFFFFF) * span >> 20
        mirrored = bits >> 40 & 1 if self.flip else torch.zeros_like(bits)
        shape = (len(names), steps, batch)
        return Augment(*(part.int().expand(shape) for part in (y - self.crop, x - self.crop, mirrored)))


@dataclass(frozen=True)
class Batch:
    """Samples of n clients for one step; weight is 1/(batch size) on samples and 0 on padding."""

    index: torch.Tensor  # [n, B]
    weight: torch.Tensor  # [n, B]
    augment: Augment | None = None  # [n, B]
    dropout: torch.Tensor | None = None  # [n], random bits that name the units to leave out

    def cut(self, width: int) -> Batch:
        """Without the padding beyond a width."""
        at = (..., slice(width))
        return Batch(self.index[at], self.weight[at], _at(self.augment, at), self.dropout)

    def __getitem__(self, at: int | slice | torch.Tensor) -> Self:
        """Of one of the clients, or of some."""
        return type(self)(*(_at(part, at) for part in vars(self).values()))


class Batches(Batch):
    """The batches of a round, kept together: [n, steps, B], dropout [n, steps]; weight [n, B], or [n, steps, B] where
    the batches of a client differ in size."""

    @staticmethod
    def joined(drawn: list[Batches]) -> Batches:
        """The draws of several runs one after another, narrow batches padded with weight 0."""
        steps, width = (max(b.index.shape[axis] for b in drawn) for axis in (1, 2))

        def pad(x: torch.Tensor) -> torch.Tensor:
            return F.pad(x, (0, width - x.shape[-1], *([0, steps - x.shape[1]] if x.ndim == 3 else [])))

        augments = [vars(b.augment).values() for b in drawn if b.augment is not None]
        changes = [torch.cat([pad(x) for x in parts]) for parts in zip(*augments, strict=True)]
        dropout = [F.pad(b.dropout, (0, steps - b.dropout.shape[1])) for b in drawn if b.dropout is not None]
        return Batches(
            torch.cat([pad(b.index) for b in drawn]),
            torch.cat([pad(b.weight) for b in drawn]),
            Augment(*changes) if changes else None,
            torch.cat(dropout) if dropout else None,
        )

    def __iter__(self) -> Iterator[Batch]:
        for step in range(self.index.shape[1]):
            at = (slice(None), step)
            weight = self.weight if self.weight.ndim == 2 else self.weight[at]
            yield Batch(self.index[at], weight, _at(self.augment, at), _at(self.dropout, at))


def _at(part: Any, index: Any) -> Any:
    return None if part is None else part[index]
