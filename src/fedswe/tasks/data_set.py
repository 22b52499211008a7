"""A data set: on the host, and on the device that trains; samples as users have them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedswe.errors import FedsweError, mistakes_as, require

if TYPE_CHECKING:
    import torch

AT_A_TIME = {"cpu": 1024, "cuda": 8192}  # images normalised or scored at once: few for the CPU's cache, many for a GPU
MOST_CLASSES = 100_000  # a larger label is a mistake: each up to the largest has an output and a share

Array = npt.NDArray[Any]
Arrays = tuple[Array, Array]  # inputs [N, ...] and targets [N, ...]


@dataclass(frozen=True, eq=False)
class DataSet:
    """Samples in memory; inputs are [N, ...], e.g. images [N, C, H, W], and targets [N, ...], e.g. labels from 0.

    Floats are used as they are, integers stay integers (tokens). Bytes with mean and std become (x / 255 - mean) / std
    per channel on the device, so that the host keeps them four times smaller (or memory-mapped).
    """

    x_train: Array
    y_train: Array
    x_test: Array
    y_test: Array  # without samples: there is no test set
    mean: tuple[float, ...] = ()  # of each channel, which images were or will be normalised with; empty: none
    std: tuple[float, ...] = ()  # likewise

    @property
    def classes(self) -> int:
        return int(max(y.max() for y in (self.y_train, self.y_test) if len(y))) + 1

    @property
    def black(self) -> tuple[float, ...]:
        """A pixel of value 0 after normalisation, per channel."""
        channels = self.x_train.shape[1]
        return tuple(-m / s for m, s in zip(self.mean, self.std, strict=True)) or (0.0,) * channels


# on a device -------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Resident:
    """A data set on a device, shared by all problems that were built from it."""

    x_train: torch.Tensor
    y_train: torch.Tensor
    x_test: torch.Tensor
    y_test: torch.Tensor


@lru_cache(maxsize=2)  # runs of one data set follow each other; two allow for a change of data set
def resident(data: DataSet, dtype: torch.dtype, device: torch.device) -> Resident:
    from torch import channels_last

    def inputs(x: Array) -> torch.Tensor:
        if x.dtype == np.uint8 and data.mean:
            return normalised(x, data.mean, data.std, dtype, device)
        tensor = placed(x, dtype, device)
        # Channels last is the layout in which CPU convolutions run about twice as fast.
        images = tensor.ndim == 4 and tensor.is_floating_point()
        return tensor.to(memory_format=channels_last) if images else tensor

    return Resident(
        inputs(data.x_train), placed(labels(data.y_train), dtype, device),
        inputs(data.x_test), placed(labels(data.y_test), dtype, device),
    )  # fmt: skip


def labels(targets: Array) -> Array:
    """Booleans are two classes."""
    return targets.astype(np.int64) if targets.dtype == bool else targets


def placed(values: Array, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Numbers on a device: floats in the number format of the run, integers as they index (int64)."""
    import torch

    tensor = torch.as_tensor(values)
    whole = not tensor.is_floating_point() and tensor.dtype != torch.bool
    return tensor.to(device=device, dtype=torch.int64 if whole else dtype)


def normalised(
    pixels: Array, mean: tuple[float, ...], std: tuple[float, ...], dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """Bytes [N, C, H, W] as (x / 255 - mean) / std, piece by piece: only bytes are copied to the device."""
    import torch

    images = torch.empty(pixels.shape, dtype=dtype, device=device, memory_format=torch.channels_last)
    centre, spread = (torch.tensor(v, dtype=dtype, device=device).view(-1, 1, 1) for v in (mean, std))
    for part in chunks(len(pixels), device):
        piece = torch.tensor(pixels[part], device=device).to(dtype)
        images[part] = piece.div_(255).sub_(centre).div_(spread)
    return images


def chunks(size: int, device: torch.device) -> Iterator[slice]:
    at_a_time = AT_A_TIME[device.type]
    return (slice(a, a + at_a_time) for a in range(0, size, at_a_time))


# from users --------------------------------------------------------------------------------------------------
def samples(given: Any, where: str, like: Arrays | None = None) -> Arrays:
    """(inputs, targets) as arrays, from arrays, tensors, data frames, or a torch Dataset.

    `where` says whose they are, for messages; `like` are others, which must have the same form.
    """
    if hasattr(given, "tensors"):  # a TensorDataset: as a whole, not sample by sample
        given = given.tensors
    elif hasattr(given, "__getitem__") and not isinstance(given, tuple | list | np.ndarray):
        given = _stacked(given, where)
    pair = isinstance(given, tuple | list) and len(given) == 2
    require(pair, f"{where}: give (inputs, targets) or a torch Dataset, not {type(given).__name__}")
    both = _array(given[0], f"{where}: the inputs"), _array(given[1], f"{where}: the targets")
    require(len(both[0]) == len(both[1]), f"{where} has {len(both[0])} inputs for {len(both[1])} targets")
    require(len(both[0]), f"{where} has no samples: leave it out")
    for name, mine, other in zip(("inputs", "targets"), both, like or both, strict=True):
        require(
            mine.shape[1:] == other.shape[1:] and (mine.dtype.kind == "f") == (other.dtype.kind == "f"),
            f"{where}: {name} of shape {list(mine.shape[1:])} ({mine.dtype}) per sample, "
            f"elsewhere {list(other.shape[1:])} ({other.dtype})",
        )
    return both


def _stacked(dataset: Any, where: str) -> Arrays:
    """All samples of a torch Dataset; transforms with random results are applied once."""
    with mistakes_as(f"{where}: its samples cannot be read as (input, target)"):  # np.stack says where shapes differ
        require(len(dataset), f"{where} has no samples: leave it out")
        inputs, targets = zip(*(dataset[i] for i in range(len(dataset))), strict=True)
        return np.stack([np.asarray(x) for x in inputs]), np.stack([np.asarray(y) for y in targets])


def _array(values: Any, where: str) -> Array:
    values = values.detach().cpu() if hasattr(values, "detach") else values
    with mistakes_as(f"{where} are not an array of numbers"):
        array = np.asarray(values)
    if array.dtype == object:  # such as the nullable columns of data frames
        with suppress(TypeError, ValueError):
            array = np.array(array.tolist())
    masked = isinstance(values, np.ma.MaskedArray) and bool(np.ma.is_masked(values))
    require(not masked, f"{where} are masked: fill or leave out what is masked")
    require(array.dtype.kind in "biuf", f"{where} must be numbers, not {array.dtype}: convert them first")
    require(array.dtype.itemsize <= 8, f"{where} are {array.dtype}: convert them to float64")
    require(array.ndim, f"{where} must have one row per sample")
    array = array.astype(np.int64) if array.dtype == np.uint64 else array  # which no index is
    if array.dtype.kind == "f":  # larger numbers are infinite in a run in float32
        for sample, *_ in np.argwhere(~(np.abs(array) <= np.finfo(np.float32).max))[:1]:
            raise FedsweError(f"{where} hold NaN or infinity (sample {sample}): remove or replace them")
    return array
