"""A labelled data set: on the host, and on the device that trains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch

AT_A_TIME = {"cpu": 1024, "cuda": 8192}  # images normalised or scored at once: few for the CPU's cache, many for a GPU

Inputs = npt.NDArray[np.floating] | npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Labelled:
    """A data set in memory; inputs are [N, C, H, W] or [N, features], labels 0..classes-1.

    Floats are used as they are; bytes become (x / 255 - mean) / std per channel on the device, so that the host
    keeps them four times smaller (or memory-mapped).
    """

    x_train: Inputs
    y_train: npt.NDArray[np.int64]
    x_test: Inputs
    y_test: npt.NDArray[np.int64]
    mean: tuple[float, ...] = ()  # of each channel, which images were or will be normalised with; empty: none
    std: tuple[float, ...] = ()  # likewise

    @property
    def classes(self) -> int:
        return int(max(self.y_train.max(), self.y_test.max())) + 1

    @property
    def black(self) -> tuple[float, ...]:
        """A pixel of value 0 after normalisation, per channel."""
        channels = self.x_train.shape[1]
        return tuple(-m / s for m, s in zip(self.mean, self.std, strict=True)) or (0.0,) * channels


@dataclass(frozen=True, eq=False)
class Resident:
    """A data set on a device, shared by all problems that were built from it."""

    x_train: torch.Tensor
    y_train: torch.Tensor
    x_test: torch.Tensor
    y_test: torch.Tensor


@lru_cache(maxsize=2)  # runs of one data set follow each other; two allow for a change of data set
def resident(data: Labelled, dtype: torch.dtype, device: torch.device) -> Resident:
    import torch

    def inputs(x: Inputs) -> torch.Tensor:
        if x.dtype == np.uint8:
            return normalised(x, data.mean, data.std, dtype, device)
        tensor = torch.as_tensor(x, dtype=dtype, device=device)
        # Channels last is the layout in which CPU convolutions run about twice as fast.
        return tensor.to(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor

    def labels(y: npt.NDArray[np.int64]) -> torch.Tensor:
        return torch.as_tensor(y, device=device)

    return Resident(inputs(data.x_train), labels(data.y_train), inputs(data.x_test), labels(data.y_test))


def normalised(
    pixels: Inputs, mean: tuple[float, ...], std: tuple[float, ...], dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """Bytes [N, C, H, W] as (x / 255 - mean) / std, piece by piece: only bytes are copied to the device."""
    import torch

    shape = (len(pixels), *pixels.shape[1:])
    images = torch.empty(shape, dtype=dtype, device=device, memory_format=torch.channels_last)
    centre, spread = (torch.tensor(v, dtype=dtype, device=device).view(-1, 1, 1) for v in (mean, std))
    for part in chunks(len(pixels), device):
        piece = torch.tensor(pixels[part], device=device).to(dtype)
        images[part] = piece.div_(255).sub_(centre).div_(spread)
    return images


def chunks(size: int, device: torch.device) -> Iterator[slice]:
    at_a_time = AT_A_TIME[device.type]
    return (slice(a, a + at_a_time) for a in range(0, size, at_a_time))
