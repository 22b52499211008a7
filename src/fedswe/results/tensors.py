"""Tensors in the safetensors format."""

from __future__ import annotations

from collections.abc import Mapping

import safetensors.torch
import torch


def to_bytes(tensors: Mapping[str, torch.Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """The content of a safetensors file with these tensors, from any device."""
    # The format refuses tensors that share memory or are not contiguous.
    copies = {name: value.detach().cpu().clone().contiguous() for name, value in tensors.items()}
    return safetensors.torch.save(copies, metadata)
