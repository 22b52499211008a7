"""Your model and your data. Set `name = "federation.task:Own"` in deployment.toml to use them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import nn

from fedswe.tasks.custom import CustomTask, Samples


@dataclass(frozen=True)
class Own(CustomTask):
    """Every client reads client-I.npz (arrays x and y) from the folder in the environment variable FEDERATION_DATA.

    Without that variable it generates data, so that the example runs: three classes, in other proportions per client.
    """

    features: int = 8
    classes: int = 3

    title: ClassVar[str] = "my own model and data"

    def network(self) -> nn.Module:
        return nn.Sequential(nn.Linear(self.features, 16), nn.ReLU(), nn.Linear(16, self.classes))

    def load(self, client: int) -> Samples:
        folder = os.environ.get("FEDERATION_DATA")
        if folder is None:
            return self._generated(seed=client, leading=client % self.classes)
        with np.load(os.path.join(folder, f"client-{client}.npz"), allow_pickle=False) as stored:
            return torch.as_tensor(stored["x"]), torch.as_tensor(stored["y"])

    def test(self) -> Samples | None:
        return self._generated(seed=1000, leading=0) if "FEDERATION_DATA" not in os.environ else None

    def _generated(self, seed: int, leading: int) -> Samples:
        random = torch.Generator().manual_seed(seed)
        targets = torch.randint(self.classes, (120,), generator=random)
        targets[:40] = leading
        centers = 2 * torch.eye(self.classes, self.features)
        return centers[targets] + torch.randn(120, self.features, generator=random), targets
