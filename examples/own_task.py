"""A task of your own: your model, and how each client loads its own samples.

fedswe run task.name=./own_task.py:Slopes availability.p=0.5
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from fedswe.tasks.custom import CustomTask, Samples


@dataclass(frozen=True)
class Slopes(CustomTask):
    """Linear regression: the targets of client i are y = (i + 1) x + noise."""

    noise: float = 0.1  # standard deviation of the noise

    title: ClassVar[str] = "linear regression with a different slope at each client"

    def network(self) -> nn.Module:
        return nn.Linear(1, 1)

    def load(self, client: int) -> Samples:
        random = torch.Generator().manual_seed(client)
        x = torch.randn(60, 1, generator=random)
        return x, (client + 1) * x + self.noise * torch.randn(60, 1, generator=random)

    def test(self) -> Samples:
        x = torch.linspace(-2, 2, 50)[:, None]
        return x, (self.clients + 1) / 2 * x  # the mean slope

    def loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return ((outputs - targets) ** 2).mean(1)  # one number per sample
