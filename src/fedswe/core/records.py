"""Frozen records of tensors: what algorithms keep, send and add up.

A ``Vector`` has shape [..., d] and a ``Scalar`` [..., 1]; "..." is empty for one client and [n] when n clients are
stacked. A field without the client axis holds one value for all clients of its record.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import numpy.typing as npt
    import torch

    Vector = torch.Tensor
    Scalar = torch.Tensor
else:  # algorithms are values: they are listed, shown and configured without importing torch
    Vector = Scalar = Any

R = TypeVar("R")


@dataclass(frozen=True)
class Nothing:
    """A record without fields: nothing is kept, or nothing is sent."""


@dataclass(frozen=True)
class Model:
    """One model, as state or as message."""

    x: Vector


def parts(record: Any) -> dict[str, torch.Tensor]:
    """The fields of a record by name."""
    return {f.name: getattr(record, f.name) for f in fields(record)}


def take(record: R, rows: torch.Tensor | slice | int) -> R:
    """The given rows of a stacked record; fields without a client axis stay as they are."""
    return replace(record, **{n: v[rows] if getattr(v, "ndim", 1) == 2 else v for n, v in parts(record).items()})  # type: ignore[type-var]


def total(record: R, count: int) -> R:
    """The sum of ``count`` stacked reports: all that the server sees of its clients."""
    return replace(  # type: ignore[type-var]
        record, **{n: v * count if v.ndim == 1 else v.sum(0) for n, v in parts(record).items()}
    )


def add(a: R, b: R) -> R:
    """The sum of two reports, field by field."""
    return replace(a, **{n: v + getattr(b, n) for n, v in parts(a).items()})  # type: ignore[type-var]


def times(record: R, factor: float | Scalar) -> R:
    """A report that counts so many times; in a stack, a factor for each client."""
    return replace(record, **{n: factor * v for n, v in parts(record).items()})  # type: ignore[type-var]


def zeros(record: R) -> R:
    """The sum of no reports: the neutral element of ``add``."""
    return replace(record, **{n: v.new_zeros(v.shape) for n, v in parts(record).items()})  # type: ignore[type-var]


def floats(record: Any) -> int:
    """How many numbers a record of one client holds."""
    return sum(v.numel() for v in parts(record).values())


def to_device(values: npt.NDArray[Any] | torch.Tensor, device: torch.device) -> torch.Tensor:
    """A small array for a device. From ordinary memory CUDA would first wait for all work under way."""
    import torch

    tensor = torch.as_tensor(values)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor
