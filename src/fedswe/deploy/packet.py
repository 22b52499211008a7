"""One message or one stored file: a kind, a small header and named vectors, in the safetensors format.

``encode`` and ``decode`` convert records to named vectors and back; ``digest`` identifies vectors by their content.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn, TypeVar

import safetensors
import safetensors.torch
import torch

from fedswe.core.records import parts
from fedswe.errors import FedsweError, require
from fedswe.results.tensors import to_bytes

Header = dict[str, int | float | str]
Arrays = Mapping[str, torch.Tensor]
R = TypeVar("R")

_INDEX_LIMIT = 1 << 16  # bytes of names, shapes and header; a larger index is refused before it is parsed
_DTYPES = (torch.float32, torch.float64)


@dataclass(frozen=True, eq=False)
class Packet:
    kind: str
    header: Header = field(default_factory=dict)
    arrays: dict[str, torch.Tensor] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        return to_bytes(self.arrays, {"packet": self._metadata()})

    def _metadata(self) -> str:
        return json.dumps({"kind": self.kind, "header": self.header}, allow_nan=False)

    @property
    def size(self) -> int:
        """Bytes of header and arrays; names and shapes add a few hundred bytes when the packet is sent."""
        return len(self._metadata()) + sum(value.numel() * value.element_size() for value in self.arrays.values())

    @staticmethod
    def from_bytes(data: bytes) -> Packet:
        """The packet in `data`; other data raise a FedsweError. No memory is allocated for what the data only claim."""
        index = int.from_bytes(data[:8], "little")
        require(
            len(data) >= 8 and index <= len(data) - 8,
            f"not a packet: {len(data)} bytes, incomplete, or not written by fedswe",
        )
        require(index <= _INDEX_LIMIT, f"not a packet: its index claims {index} bytes")
        try:
            metadata = json.loads(data[8 : 8 + index])["__metadata__"]
            content = json.loads(metadata["packet"], parse_constant=_refuse_constant)
            kind, header = content["kind"], content["header"]
            arrays = safetensors.torch.load(data)
        except (ValueError, KeyError, TypeError, RecursionError, RuntimeError, safetensors.SafetensorError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0][:100]
            raise FedsweError(f"not a packet: {reason}") from None
        require(isinstance(kind, str) and isinstance(header, dict), "not a packet: no kind or no header")
        require(
            all(type(value) in (int, float, str) for value in header.values()),
            "not a packet: a header value is neither a number nor text",
        )
        for name, value in arrays.items():
            require(value.dtype in _DTYPES, f"not a packet: {name[:40]!a} is {value.dtype}, not float32 or float64")
            require(value.ndim == 1, f"not a packet: {name[:40]!a} is not a vector")
        return Packet(kind, header, arrays)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} in the header")


def encode(name: str, record: object) -> dict[str, torch.Tensor]:
    """``Model(x)`` called ``reply`` is ``{"reply.x": x}``."""
    return {f"{name}.{field}": value for field, value in parts(record).items()}


def decode(name: str, arrays: Arrays, like: R) -> R:
    """The record `name` among the arrays; its fields, shapes and dtypes must be those of `like`."""
    return replace(like, **decode_fields(name, arrays, parts(like)))  # type: ignore[type-var]


def decode_fields(name: str, arrays: Arrays, like: Arrays) -> dict[str, torch.Tensor]:
    """The fields of the record `name` among the arrays."""
    wanted = {f"{name}.{field}": value for field, value in like.items()}
    found = {key for key in arrays if key.startswith(f"{name}.")}
    require(found == wanted.keys(), f"{name} has the fields {_joined(found)}, expected are {_joined(wanted)}")
    for key, example in wanted.items():
        value = arrays[key]
        require(value.dtype == example.dtype, f"{key} is {value.dtype}, expected is {example.dtype}")
        require(
            value.shape == example.shape,
            f"{key} has the shape {list(value.shape)}, expected is {list(example.shape)}",
        )
    return {field: arrays[f"{name}.{field}"].to(example.device) for field, example in like.items()}


def digest(arrays: Arrays) -> str:
    """The SHA-256 of named arrays, shortened to 32 hexadecimal digits."""
    h = hashlib.sha256()
    for name in sorted(arrays):
        value = arrays[name].detach().cpu().contiguous()
        h.update(f"{name} {value.dtype} {list(value.shape)}\n".encode())
        h.update(value.numpy().tobytes())
    return h.hexdigest()[:32]


def _joined(names: Iterable[str]) -> str:
    return ", ".join(sorted(name[:40] for name in names)) or "none"
