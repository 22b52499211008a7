"""Regression: each client has its own line; the loss, the metrics and scores by group are given by name.

python regression.py
"""

import numpy as np
from torch import nn

import fedswe
from fedswe.availability import Stationary
from fedswe.tasks import from_data


def client(i: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([i, seed])
    x = rng.uniform(-2, 2, (50, 1))
    return x, np.sin(x) + 0.1 * i * x + 0.1 * rng.standard_normal((50, 1))


if __name__ == "__main__":
    task = from_data(
        model=lambda: nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1)),
        train=client,  # called with the number of a client; its samples need not be in memory
        test=tuple(np.concatenate(part) for part in zip(*(client(i, seed=1) for i in range(10)), strict=True)),
        clients=10,
        loss="mse",
        metrics=["mae", "r2"],
        groups=["often"] * 5 + ["rarely"] * 5,
    )
    availability = Stationary(p=[0.9] * 5 + [0.1] * 5)
    result = fedswe.run(fedswe.Experiment(rounds=100, task=task, availability=availability))
    for name, value in result.history.last.items():
        if name.startswith("client_mean"):
            print(f"{name:35}{value:8.4f}")
