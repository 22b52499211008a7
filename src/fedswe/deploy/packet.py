"""One message or one stored file: a kind, a small header and named vectors, in the safetensors format.

``encode`` and ``decode`` convert records to named vectors and back; ``arrays_digest`` identifies vectors by what they
hold.

A message from outside is read with the arrays that its kind may hold (``Schemas``): data larger than these are refused
unread, and an index that names other arrays is refused before anything is allocated for them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, TypeVar

import safetensors.torch
import torch

from fedswe.core.records import parts
from fedswe.errors import FedsweError, first_line, require
from fedswe.results.tensors import to_bytes

Header = dict[str, int | float | str]
Arrays = Mapping[str, torch.Tensor]
Schemas = Mapping[str, Sequence[Arrays]]  # kind -> the sets of arrays that such a packet may hold, as examples
R = TypeVar("R")

_INDEX_LIMIT = 1 << 16  # bytes of names, shapes and header; a larger index is refused before it is parsed
_DTYPES = {"F32": torch.float32, "F64": torch.float64}
_DIGITS = 20  # of an integer in the header


class SchemaError(FedsweError):
    """A packet with other arrays than its kind may hold."""


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
        return len(self._metadata()) + _nbytes(self.arrays)

    @staticmethod
    def from_bytes(data: bytes, schemas: Schemas | None = None) -> Packet:
        """The packet in `data`; other data raise a FedsweError. No memory is allocated for what the data only claim.

        With `schemas`, the kind must be one of them, and the arrays those of one of its examples.
        """
        if schemas is not None:
            limit = size_limit(schemas)
            require(len(data) <= limit, f"not a packet: {len(data)} bytes, the largest of this run has {limit}")
        try:
            kind, header, claimed = _read_index(data)
            if schemas is not None:
                _check_claims(kind, claimed, schemas)
            return Packet(kind, header, safetensors.torch.load(data))
        except FedsweError:
            raise
        except Exception as error:  # parsers of untrusted data fail in many ways, also for lack of memory
            raise FedsweError(f"not a packet: {first_line(error)[:100]}") from None


def read_header(head: bytes) -> tuple[str, Header]:
    """Kind and header of a packet of which `head` holds the first bytes; a FedsweError if they do not suffice."""
    try:
        return _read_index(head)[:2]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FedsweError(f"not a packet: {first_line(error)[:100]}") from None


HEAD = 8 + _INDEX_LIMIT  # bytes that hold every index


def size_limit(schemas: Schemas) -> int:
    """Bytes of the largest packet of these schemas."""
    return HEAD + max(_nbytes(example) for examples in schemas.values() for example in examples)


def _read_index(data: bytes) -> tuple[str, Header, dict[str, Any]]:
    """Kind, header, and what the index says about each array."""
    size = int.from_bytes(data[:8], "little")
    require(
        len(data) >= 8 and size <= len(data) - 8,
        f"not a packet: {len(data)} bytes, incomplete, or not written by fedswe",
    )
    require(size <= _INDEX_LIMIT, f"not a packet: its index claims {size} bytes")
    index = json.loads(data[8 : 8 + size])
    content = json.loads(
        index.pop("__metadata__")["packet"],
        parse_constant=_refuse_constant,
        parse_float=_finite,
        parse_int=_bounded,
    )
    kind, header = content["kind"], content["header"]
    require(isinstance(kind, str) and isinstance(header, dict), "not a packet: no kind or no header")
    require(
        all(type(value) in (int, float, str) for value in header.values()),
        "not a packet: a header value is neither a number nor text",
    )
    for name, claim in index.items():
        require(claim["dtype"] in _DTYPES, f"not a packet: {name[:40]!a} is not float32 or float64")
        require(len(claim["shape"]) == 1, f"not a packet: {name[:40]!a} is not a vector")
    return kind, header, index


def _check_claims(kind: str, claimed: Mapping[str, Any], schemas: Schemas) -> None:
    require(kind in schemas, f"not a packet that is expected here: its kind is {kind[:40]!a}")
    found = {name: (_DTYPES[claim["dtype"]], tuple(claim["shape"])) for name, claim in claimed.items()}
    expected = [{name: (value.dtype, tuple(value.shape)) for name, value in e.items()} for e in schemas[kind]]
    if found not in expected:
        raise SchemaError(f"its arrays are {_shown(found)}, expected are {' or '.join(map(_shown, expected))}")


def _shown(arrays: Mapping[str, tuple[torch.dtype, Sequence[object]]]) -> str:
    shown = [f"{name[:40]!a} ({dtype}, {str(list(shape))[:40]})" for name, (dtype, shape) in sorted(arrays.items())[:8]]
    return ", ".join(shown) or "none"


def _nbytes(arrays: Arrays) -> int:
    return sum(value.numel() * value.element_size() for value in arrays.values())


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} in the header")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number in the header is not finite")
    return value


def _bounded(text: str) -> int:
    if len(text) > _DIGITS:
        raise ValueError("an integer in the header is too long")
    return int(text)


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


def arrays_digest(arrays: Arrays) -> str:
    """The SHA-256 of named arrays, shortened to 32 hexadecimal digits."""
    h = hashlib.sha256()
    for name in sorted(arrays):
        value = arrays[name].detach().cpu().contiguous()
        h.update(f"{name} {value.dtype} {list(value.shape)}\n".encode())
        h.update(value.numpy().tobytes())
    return h.hexdigest()[:32]


def _joined(names: Iterable[str]) -> str:
    return ", ".join(sorted(name[:40] for name in names)) or "none"
