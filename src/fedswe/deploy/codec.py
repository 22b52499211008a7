"""Records to named arrays and back, from their field names alone."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import torch

from fedswe.core.records import parts
from fedswe.errors import require

R = TypeVar("R")
Arrays = Mapping[str, torch.Tensor]


def encode(name: str, record: object) -> dict[str, torch.Tensor]:
    """``Model(x)`` called ``reply`` is ``{"reply.x": x}``."""
    return {f"{name}.{field}": value for field, value in parts(record).items()}


def decode(name: str, arrays: Arrays, like: R) -> R:
    """The record `name` among the arrays, with the fields, shapes and dtypes of `like`; others are refused."""
    wanted = encode(name, like)
    found = {key for key in arrays if key.startswith(f"{name}.")}
    require(found == wanted.keys(), f"{name} has the fields {_listed(found)}, expected are {_listed(wanted)}")
    for key, example in wanted.items():
        value = arrays[key]
        require(value.dtype == example.dtype, f"{key} is {value.dtype}, expected is {example.dtype}")
        require(
            value.shape == example.shape,
            f"{key} has the shape {list(value.shape)}, expected is {list(example.shape)}",
        )
    values = {field: arrays[f"{name}.{field}"].to(example.device) for field, example in parts(like).items()}
    return replace(like, **values)  # type: ignore[type-var]


def digest(arrays: Arrays) -> str:
    """The content of named arrays in 32 hexadecimal digits."""
    h = hashlib.sha256()
    for name in sorted(arrays):
        value = arrays[name].detach().cpu().contiguous()
        h.update(f"{name} {value.dtype} {list(value.shape)}\n".encode())
        h.update(value.numpy().tobytes())
    return h.hexdigest()[:32]


def _listed(names: object) -> str:
    return ", ".join(sorted(str(n)[:40] for n in names)) or "none"  # type: ignore[attr-defined]
