"""Arrays of a Flower message as one vector, and back. What comes from a client is checked before it is used."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from flwr.app import Array, ArrayRecord

from fedswe.core.records import Vector
from fedswe.errors import require

Numbers = npt.NDArray[Any]
_HEADER = 4096  # bytes: more than the header of an array needs
_CHUNK = 1 << 17  # coordinates at a time: they stay in the cache, and no copy of a vector is made


@dataclass(frozen=True)
class Layout:
    """The arrays of a model. Those of floating-point numbers are one vector, in order; the others are not trained."""

    arrays: tuple[tuple[str, str, tuple[int, ...]], ...]  # name, dtype, shape
    fixed: Mapping[str, Array]  # arrays that are not trained: whole numbers, such as the counters of BatchNorm

    @classmethod
    def of(cls, record: ArrayRecord) -> Layout:
        fixed = {name: array for name, array in record.items() if array.dtype.startswith(("int", "uint", "bool"))}
        trained = {array.dtype for name, array in record.items() if name not in fixed}
        require(trained, "initial_arrays has no array of floating-point numbers: there is nothing to train")
        known = trained <= {"float32", "float64"}  # a start that is rounded would be progress
        require(known, f"initial_arrays has {', '.join(sorted(trained))}: use float32")
        return cls(tuple((name, array.dtype, tuple(array.shape)) for name, array in record.items()), fixed)

    def with_fixed(self, data: Mapping[str, bytes]) -> Layout:
        """With these bytes in the arrays that are not trained."""
        arrays = {name: Array(a.dtype, a.shape, a.stype, data[name]) for name, a in self.fixed.items()}
        return replace(self, fixed=arrays)

    @property
    def trained(self) -> list[tuple[str, np.dtype[Any], tuple[int, ...]]]:
        return [(name, np.dtype(dtype), shape) for name, dtype, shape in self.arrays if name not in self.fixed]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the vector: the widest of the arrays', at least float32."""
        return np.result_type(np.float32, *(dtype for _, dtype, _ in self.trained))

    def views(self, record: Mapping[str, Array]) -> list[Numbers]:
        """The trained arrays of a record from outside, without a copy."""
        names = {name for name, _, _ in self.arrays}
        require(record.keys() == names, f"other arrays than the model has: {sorted(record.keys() ^ names)[:4]}")
        return [_view(name, record[name], dtype, shape) for name, dtype, shape in self.trained]

    def vector(self, views: list[Numbers]) -> Vector:
        return torch.from_numpy(np.concatenate([view.ravel() for view in views], dtype=self.dtype))

    def record(self, x: Vector) -> ArrayRecord:
        flat, found, at = x.numpy(), dict(self.fixed), 0
        for name, dtype, shape in self.trained:
            size = math.prod(shape)
            found[name] = Array(flat[at : at + size].reshape(shape).astype(dtype, copy=False))
            at += size
        return ArrayRecord({name: found[name] for name, _, _ in self.arrays})

    def move(self, views: list[Numbers], start: Vector) -> float:
        """The L2 distance from the start; not finite if a number is not."""
        x, dtype, total, at = start.numpy(), self.dtype, 0.0, 0
        with np.errstate(all="ignore"):  # whatever a client sends
            for view in views:
                flat = view.reshape(-1)
                for begin in range(0, len(flat), _CHUNK):
                    part = flat[begin : begin + _CHUNK]
                    change = np.subtract(part, x[at : at + len(part)], dtype=dtype)
                    total += float(change.dot(change))
                    at += len(part)
        return math.sqrt(total)


def _view(name: str, array: Array, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Numbers:
    """The numbers of an array. Its bytes are numpy's format, whose header may claim anything."""
    size = math.prod(shape) * dtype.itemsize
    require(size <= len(array.data) <= size + _HEADER, f"array {name} has not the size of {dtype} {list(shape)}")
    stream = BytesIO(array.data[:_HEADER])
    version = np.lib.format.read_magic(stream)  # a later one has a header of more than 65,535 bytes
    found, by_columns, kind = np.lib.format.read_array_header_1_0(stream)
    same = version == (1, 0) and kind == dtype and found == shape
    require(same, f"array {name} is not {dtype} {list(shape)}")
    flat = np.frombuffer(array.data, dtype, math.prod(shape), offset=stream.tell())
    return flat.reshape(shape, order="F" if by_columns else "C")
