"""Tasks with networks of many kinds, made with from_data; the clients differ in size, some have less than a batch."""

from functools import cache

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from fedswe.tasks import from_data

SIZES = (5, 40, 70, 33, 12, 64)
TOKENS = 20


def clients(kind, seed=0):
    """Samples of each client: vectors, images, tokens with one class or with a class per token, or a regression."""
    rng = np.random.default_rng(seed)
    found = []
    for size in SIZES:
        vectors, classes = rng.standard_normal((size, 8)), rng.integers(0, 3, size)
        tokens = rng.integers(0, TOKENS, (size, 6))
        found.append(
            {
                "vectors": (vectors, classes),
                "images": (rng.standard_normal((size, 1, 8, 8)), classes),
                "tokens": (tokens, classes),
                "sequences": (tokens, np.roll(tokens, 1, axis=1)),
                "regression": (vectors, vectors[:, :2] * 2 + 1),
            }[kind]
        )
    return found


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.out = nn.Embedding(TOKENS, 8), nn.Linear(8, 3)

    def forward(self, tokens):
        return self.out(self.embedding(tokens).mean(1))


class Transformer(nn.Module):
    """With a constant buffer, attention, layer normalisation, and dropout in each of them."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, 16)
        self.register_buffer("position", torch.linspace(-1, 1, 6 * 16).view(6, 16))
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.out = nn.Linear(16, TOKENS)

    def forward(self, tokens):
        return self.out(self.encoder(self.embedding(tokens) + self.position)).transpose(1, 2)


class FunctionalDropout(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.out = nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 3)

    def forward(self, x):
        return self.out(F.dropout(self.norm(self.first(x)).relu(), 0.3, self.training))


def frozen_backbone():
    network = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    network[1].running_mean += 0.5
    for part in network[:2]:
        part.requires_grad_(False)
    return network


def dropout():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))


def batch_norm():
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))


def image_batch_norm():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))


def group_norm():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))


def linear():
    return nn.Linear(8, 2)


def tanh():
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))


KINDS = {
    "dropout": (dropout, "vectors"),
    "functional dropout": (FunctionalDropout, "vectors"),
    "embedding": (Embedding, "tokens"),
    "frozen backbone": (frozen_backbone, "vectors"),
    "batch normalisation": (batch_norm, "vectors"),
    "batch normalisation of images": (image_batch_norm, "images"),
    "group normalisation": (group_norm, "images"),
    "regression": (linear, "regression"),
    "tanh": (tanh, "vectors"),
    "transformer": (Transformer, "sequences"),
}


@cache
def task(name):
    model, kind = KINDS[name]
    test = tuple(np.concatenate(part) for part in zip(*clients(kind, seed=1), strict=True))
    options = {"loss": "mse", "metrics": ["mae", "r2"]} if kind == "regression" else {}
    return from_data(model, clients(kind), test, **options)
