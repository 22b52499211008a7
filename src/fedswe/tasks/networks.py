"""The networks that the built-in tasks know by name."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import nn

from fedswe.errors import require

Shape = tuple[int, ...]


def softmax(shape: Shape, classes: int) -> nn.Sequential:
    """Multinomial logistic regression."""
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), classes))


def mlp(shape: Shape, classes: int) -> nn.Sequential:
    """One hidden layer of 64."""
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), 64), nn.ReLU(), nn.Linear(64, classes))


def cnn(shape: Shape, classes: int) -> nn.Sequential:
    """Two 3x3 convolutions with pooling and a linear layer, for images of at least 4x4."""
    require(len(shape) == 3, 'task.model = "cnn" needs images, not flat features: use "mlp" or "softmax"')
    channels, height, width = shape
    require(min(height, width) >= 4, f'task.model = "cnn" needs images of at least 4x4, not {height}x{width}')
    return nn.Sequential(
        nn.Conv2d(channels, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * (height // 4) * (width // 4), classes),
    )


def paper_cnn(*widths: int, dropout: float = 0.0) -> Callable[[Shape, int], nn.Sequential]:
    """The paper's CNN: two 3x3 convolutions with 32 channels and pooling, then dense layers of the given widths.

    Initialised as the released code does: Kaiming-normal weights and zero biases, except in the last layer.
    """

    def build(shape: Shape, classes: int) -> nn.Sequential:
        require(tuple(shape) == (3, 32, 32), f"the paper's networks need colour images of 32x32, not {shape}")
        layers: list[nn.Module] = []
        for channels in (3, 32):
            layers += [nn.Conv2d(channels, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        layers.append(nn.Flatten())
        inputs = 2048
        for width in (*widths, classes):
            if dropout:
                layers.append(nn.Dropout(dropout))
            layers += [nn.Linear(inputs, width), nn.ReLU()]
            inputs = width
        for layer in layers[:-2]:
            if isinstance(layer, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
        return nn.Sequential(*layers[:-1])

    return build


def kaiming_last_layer(module: nn.Sequential) -> None:
    """Give the last dense layer the initialisation of the layers before it, as the paper says of all."""
    last = [layer for layer in module if isinstance(layer, nn.Linear)][-1]
    nn.init.kaiming_normal_(last.weight, nonlinearity="relu")
    nn.init.zeros_(last.bias)


NETWORKS: dict[str, Callable[[Shape, int], nn.Sequential]] = {
    "softmax": softmax,
    "mlp": mlp,
    "cnn": cnn,
    "svhn_cnn": paper_cnn(128),
    "cifar10_cnn": paper_cnn(256, 64),
    "cinic10_cnn": paper_cnn(512, 256, dropout=0.2),
}
