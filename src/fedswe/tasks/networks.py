"""The networks that clients train: torch modules whose parameters are one flat vector, for one client or n."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.nn.modules.dropout import _DropoutNd

from fedswe.core import keys
from fedswe.core.records import Vector
from fedswe.errors import FedsweError, require

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


def kept(dropout: torch.Tensor, layer: int, samples: int, units: int, p: float) -> torch.Tensor:
    """1/(1 - p) for units that stay, 0 for those left out, [samples, units]."""
    sample = torch.arange(samples, device=dropout.device)[:, None]
    unit = torch.arange(units, device=dropout.device)
    return (keys.fraction(keys.extend(dropout, layer, sample, unit)) >= p) / (1.0 - p)


def pooled_first(module: nn.Module) -> nn.Module:
    """The same function with each ReLU before a max-pooling moved behind it, where it has a quarter of the work."""
    if type(module) is not nn.Sequential:  # a subclass may do more than call its layers in turn
        return module
    layers = list(module)
    for i, (first, second) in enumerate(pairwise(layers)):
        if isinstance(first, nn.ReLU) and isinstance(second, nn.MaxPool2d):
            layers[i : i + 2] = [second, first]
    # Neither has parameters, so those of the other layers keep their names.
    return nn.Sequential(OrderedDict(zip(module._modules, layers, strict=True)))


class Network:
    """A module whose parameters are a vector x [d]."""

    def __init__(self, module: nn.Module) -> None:
        for name, part in module.named_modules():
            if list(part.buffers(recurse=False)):
                raise FedsweError(
                    f"layer {name or type(part).__name__} ({type(part).__name__}) keeps buffers, which averaging "
                    "does not define: use a layer without them, such as GroupNorm for BatchNorm"
                )
        # Dropout is keyed, see `logits`; torch's own would draw from a global stream.
        self.module = pooled_first(module).eval()
        self.drops = [layer.p for layer in module.modules() if isinstance(layer, _DropoutNd)]
        require(
            not self.drops or type(module) is nn.Sequential, "dropout needs a network that is a plain nn.Sequential"
        )
        self._names, parameters = zip(*module.named_parameters(), strict=True)
        self._shapes = [p.shape for p in parameters]
        self._sizes = [p.numel() for p in parameters]

    @property
    def signature(self) -> str:
        """Networks with one signature have the same parameters in the same places."""
        return repr(self.module)

    def initial(self) -> Vector:
        """The module's own initialisation as a vector."""
        return torch.cat([p.detach().reshape(-1) for p in self.module.parameters()])

    def parameters_at(self, x: Vector) -> dict[str, torch.Tensor]:
        """x as the module's own named parameters."""
        pieces = zip(torch.split(x, self._sizes), self._shapes, strict=True)
        return dict(zip(self._names, (p.view(s) for p, s in pieces), strict=True))

    def logits(self, x: Vector, inputs: torch.Tensor, dropout: torch.Tensor | None = None) -> torch.Tensor:
        """One client: inputs [B, ...] through the module with parameters x [d].

        `dropout` names the units to leave out in training: random bits, extended by layer, sample and unit.
        """
        values = self.parameters_at(x)
        if dropout is None:
            result: torch.Tensor = functional_call(self.module, values, (inputs,))
            return result
        assert isinstance(self.module, nn.Sequential)
        h, layer_number = inputs, 0
        for name, layer in self.module.named_children():
            if isinstance(layer, nn.Dropout):
                h = h * kept(dropout, layer_number, h.shape[0], h.shape[1], layer.p).to(h.dtype)
                layer_number += 1
            else:
                own = {key.split(".")[1]: v for key, v in values.items() if key.split(".")[0] == name}
                h = functional_call(layer, own, (h,))
        return h

    @property
    def stacks(self) -> bool:
        """Whether `stacked_gradients` knows this network: Flatten, then Linear layers with ReLU between them."""
        if type(self.module) is not nn.Sequential:
            return False
        kinds = [type(layer) for layer in self.module]
        biased = all(layer.bias is not None for layer in self.module if isinstance(layer, nn.Linear))
        return biased and kinds == [nn.Flatten, *[nn.Linear, nn.ReLU] * (len(kinds) // 2 - 1), nn.Linear]

    def stacked_gradients(self, x: Vector, inputs: torch.Tensor, labels: torch.Tensor, weight: torch.Tensor) -> Vector:
        """The gradients [n, d] of n clients' weighted cross-entropy at x [n, d] on inputs [n, B, ...].

        Written out because autograd would transpose the wrong way: with units along rows, [n, units, B], the gradient
        of a weight is a product of rows (five times faster on a CPU than the product of columns).
        """
        assert isinstance(self.module, nn.Sequential)
        pieces = [p.view(len(x), *s) for p, s in zip(torch.split(x, self._sizes, dim=1), self._shapes, strict=True)]
        layers = list(zip(pieces[::2], pieces[1::2], strict=True))  # (weight, bias) of each dense layer
        before = [inputs.flatten(2).transpose(1, 2)]
        for number, (w, b) in enumerate(layers):
            h = (w @ before[-1]).to(x.dtype) + b.unsqueeze(2)
            before.append(F.relu(h) if number + 1 < len(layers) else h)
        g = F.softmax(before[-1], dim=1)
        g.scatter_add_(1, labels.unsqueeze(1), -torch.ones_like(g[:, :1]))
        g *= weight.unsqueeze(1)
        gradients: list[torch.Tensor] = []
        for number in reversed(range(len(layers))):
            gradients[:0] = [(g @ before[number].transpose(1, 2)).to(x.dtype).flatten(1), g.sum(2)]
            if number:
                g = (layers[number][0].transpose(1, 2) @ g).to(x.dtype) * (before[number] > 0)
        return torch.cat(gradients, dim=1)
