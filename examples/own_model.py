"""Your own network, on the built-in digits or on any other data: a comparison, a figure, and a model to use.

python own_model.py [FOLDER]        # results; default: a new folder under runs/
fedswe compare task.model=./own_model.py:make --algorithms fedswe,fedavg
"""

import sys

import torch
from torch import nn

import fedswe
from fedswe.tasks import Digits


def make(shape: tuple[int, ...], classes: int) -> nn.Module:
    """The network for inputs of a shape; called once per seed."""
    return nn.Sequential(
        nn.Conv2d(shape[0], 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Dropout(0.2), nn.Linear(8 * 16, classes),
    )  # fmt: skip


if __name__ == "__main__":
    folder = sys.argv[1] if len(sys.argv) > 1 else "runs/own_model"
    experiment = fedswe.Experiment(rounds=15, task=Digits(clients=8, alpha=1.0, model=f"{__file__}:make"))
    comparison = fedswe.compare(experiment, ["fedswe:k=10", "fedavg"], seeds=[3, 4], out=folder)
    print(comparison.summary_csv())
    fedswe.plot(folder).savefig(f"{folder}/curves.pdf")

    result = fedswe.run(experiment)
    network = make((1, 8, 8), 10)
    network.load_state_dict(result.state_dict("client_mean"))  # an ordinary torch module
    print(network.eval()(torch.zeros(1, 1, 8, 8)).shape)
