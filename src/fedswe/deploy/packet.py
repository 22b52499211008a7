"""One message, or one durable file: a kind, a small header and named vectors, as safetensors."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import NoReturn

import safetensors
import safetensors.torch
import torch

from fedswe.errors import FedsweError, require

Header = dict[str, int | float | str]

_INDEX_LIMIT = 1 << 16  # bytes of names, shapes and header: refused before anything is parsed
_DTYPES = (torch.float32, torch.float64)


@dataclass(frozen=True, eq=False)
class Packet:
    kind: str
    header: Header = field(default_factory=dict)
    arrays: dict[str, torch.Tensor] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        tensors = {name: value.detach().cpu().clone().contiguous() for name, value in self.arrays.items()}
        return safetensors.torch.save(tensors, {"packet": self._note()})

    def _note(self) -> str:
        return json.dumps({"kind": self.kind, "header": self.header}, allow_nan=False)

    @property
    def size(self) -> int:
        """Bytes of header and arrays; names and shapes add some hundred on the wire."""
        return len(self._note()) + sum(value.numel() * value.element_size() for value in self.arrays.values())

    @staticmethod
    def from_bytes(data: bytes) -> Packet:
        """The packet in `data`; anything else is a FedsweError of one line, without allocating what it claims."""
        index = int.from_bytes(data[:8], "little")
        require(len(data) >= 8 and index <= len(data) - 8, f"not a packet: {len(data)} bytes, cut off or not ours")
        require(index <= _INDEX_LIMIT, f"not a packet: its index claims {index} bytes")
        try:
            metadata = json.loads(data[8 : 8 + index])["__metadata__"]
            note = json.loads(metadata["packet"], parse_constant=_refuse_constant)
            kind, header = note["kind"], note["header"]
            arrays = safetensors.torch.load(data)
        except (ValueError, KeyError, TypeError, RecursionError, RuntimeError, safetensors.SafetensorError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0][:100]
            raise FedsweError(f"not a packet: {reason}") from None
        require(isinstance(kind, str) and isinstance(header, dict), "not a packet: no kind or no header")
        require(all(type(v) in (int, float, str) for v in header.values()), "not a packet: a header of other values")
        for name, value in arrays.items():
            require(value.dtype in _DTYPES, f"not a packet: {name[:40]!a} is {value.dtype}, not float32 or float64")
            require(value.ndim == 1, f"not a packet: {name[:40]!a} is not a vector")
        return Packet(kind, header, arrays)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} in the header")
