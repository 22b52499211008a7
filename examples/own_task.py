"""A task of your own: your model, and how each client loads its own samples.

fedswe run task.name=./own_task.py:slopes availability.p=0.5
"""

from __future__ import annotations

import torch
from torch import nn

from fedswe.tasks import DataTask, from_data


def slopes(clients: int = 4, noise: float = 0.1) -> DataTask:
    """Linear regression: the targets of client i are y = (i + 1) x + noise."""

    def load(client: int) -> tuple[torch.Tensor, torch.Tensor]:
        random = torch.Generator().manual_seed(client)
        x = torch.randn(60, 1, generator=random)
        return x, (client + 1) * x + noise * torch.randn(60, 1, generator=random)

    def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return ((outputs - targets) ** 2).mean(1)  # one number per sample

    x = torch.linspace(-2, 2, 50)[:, None]
    test = x, (clients + 1) / 2 * x  # the mean slope
    return from_data(lambda: nn.Linear(1, 1), load, test, clients=clients, loss=loss)
