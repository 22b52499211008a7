"""From the host to a device without waiting for it."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import torch


def to_device(values: npt.NDArray[Any] | torch.Tensor, device: torch.device) -> torch.Tensor:
    """A small array for a device. From ordinary memory CUDA would first wait for all work under way."""
    tensor = torch.as_tensor(values)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor
