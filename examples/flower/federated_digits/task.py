"""Model, data and training. Nothing here knows about federated learning."""

import sys
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn


class Net(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def digits(half: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The "train" or "test" half of scikit-learn's 1797 digits, which need no download."""
    x, y = load_digits(return_X_y=True)
    part = slice(0, None, 2) if half == "train" else slice(1, None, 2)
    return torch.tensor(x[part] / 16, dtype=torch.float32), torch.tensor(y[part])


def partition(client: int, clients: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Samples of a client in a simulation: few labels each, and other labels than the next client's."""
    x, y = digits("train")
    shards = torch.argsort(y, stable=True).tensor_split(2 * clients)
    rows = torch.cat([shards[client], shards[client + clients]])
    return x[rows], y[rows]


def read(path: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Samples of a site: an .npz file with x (n, 64) from 0 to 1 and y (n,) from 0 to 9."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"this site has no samples: {path} is missing")
    with np.load(path) as file:
        return torch.tensor(file["x"], dtype=torch.float32), torch.tensor(file["y"], dtype=torch.int64)


def train(model: Net, x: torch.Tensor, y: torch.Tensor, steps: int, batch_size: int, lr: float) -> float:
    """Steps of SGD; returns the mean loss."""
    optimiser, losses = torch.optim.SGD(model.parameters(), lr), []
    for _ in range(steps):
        rows = torch.randint(len(y), (batch_size,))
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


if __name__ == "__main__":  # python -m federated_digits.task 3 writes the files of three sites, for a trial
    for site in range(int(sys.argv[1])):
        x, y = partition(site, int(sys.argv[1]))
        np.savez(f"digits-{site}.npz", x=x.numpy(), y=y.numpy())
