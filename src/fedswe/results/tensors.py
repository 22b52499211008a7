"""Tensors in the safetensors format."""

from __future__ import annotations

import json
from collections.abc import Mapping

import safetensors.torch
import torch


def to_bytes(tensors: Mapping[str, torch.Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """The content of a safetensors file with these tensors, from any device. The same tensors give the same bytes."""
    # The format refuses tensors that share memory or are not contiguous.
    copies = {name: value.detach().cpu().clone().contiguous() for name, value in tensors.items()}
    content = safetensors.torch.save(copies, metadata)
    return _with_sorted_metadata(content) if metadata and len(metadata) > 1 else content


def _with_sorted_metadata(content: bytes) -> bytes:
    """safetensors writes the metadata in random order; their order does not change the length of the header."""
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + content[end:]
