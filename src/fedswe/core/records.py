"""Frozen records of tensors: what algorithms keep, send and add up.

A ``Vector`` has shape [..., d] and a ``Scalar`` [..., 1]; "..." is empty at one client and [n] when n clients
are stacked. A field without the client axis holds one value for all clients of its record.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import torch

Vector = torch.Tensor
Scalar = torch.Tensor

R = TypeVar("R")


@dataclass(frozen=True)
class Nothing:
    """A record without fields: nothing is kept, or nothing travels."""


@dataclass(frozen=True)
class Model:
    """One model, as state or as message."""

    x: Vector


def parts(record: Any) -> dict[str, torch.Tensor]:
    """The fields of a record by name."""
    return {f.name: getattr(record, f.name) for f in fields(record)}


def take(record: R, rows: torch.Tensor) -> R:
    """The given rows of a stacked record; fields without a client axis stay as they are."""
    return replace(record, **{n: v if v.ndim == 1 else v[rows] for n, v in parts(record).items()})  # type: ignore[type-var]


def total(record: R, count: int) -> R:
    """Sum ``count`` stacked reports: all the server ever sees of its clients."""
    return replace(  # type: ignore[type-var]
        record, **{n: v * count if v.ndim == 1 else v.sum(0) for n, v in parts(record).items()}
    )


def add(a: R, b: R) -> R:
    """Add two reports field by field."""
    return replace(a, **{n: v + getattr(b, n) for n, v in parts(a).items()})  # type: ignore[type-var]


def zeros(record: R) -> R:
    """The report of nobody: the neutral element of ``add``."""
    return replace(record, **{n: torch.zeros_like(v) for n, v in parts(record).items()})  # type: ignore[type-var]


def floats(record: Any) -> int:
    """How many numbers a record of one client holds."""
    return sum(v.numel() for v in parts(record).values())


def clipped(v: Vector, bound: float) -> Vector:
    """One vector, shortened to an L2 norm of at most ``bound``."""
    factor: Scalar = bound / torch.linalg.vector_norm(v).clamp(min=bound)
    return v * factor
