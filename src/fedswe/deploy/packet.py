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
        note = json.dumps({"kind": self.kind, "header": self.header}, allow_nan=False)
        tensors = {name: value.detach().cpu().clone().contiguous() for name, value in self.arrays.items()}
        data = safetensors.torch.save(tensors, {"packet": note})
        self.__dict__["_size"] = len(data)
        return data

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        known: int | None = self.__dict__.get("_size")
        return len(self.to_bytes()) if known is None else known

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
        packet = Packet(kind, header, arrays)
        packet.__dict__["_size"] = len(data)
        return packet


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} in the header")
