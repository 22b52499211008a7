"""The paper's data sets, and Fashion-MNIST as a lighter real one, with the paper's number of clients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from fedswe.core import keys
from fedswe.core.value import Count, Natural
from fedswe.datasets import DATASETS, Images, load
from fedswe.datasets.catalogue import Dataset
from fedswe.datasets.readers import Pixels
from fedswe.errors import require
from fedswe.tasks.classification import ClassificationTask, model_field
from fedswe.tasks.data_set import DataSet


@dataclass(frozen=True)
class ImageTask(ClassificationTask):
    """Images from official files, normalised with fixed statistics. A run never downloads: `fedswe data fetch` does."""

    clients: Count = 100  # m
    root: str = ""  # folder with the official files; default: the one `fedswe data list` names
    samples: Natural = 0  # use at most so many training and so many test images, the same for every seed; 0 = all
    pool: Count = 1  # replace squares of pool x pool pixels by their mean: smaller images

    dataset: ClassVar[Dataset]

    def load(self) -> DataSet:
        known = self.dataset
        images = load(known, known.folder(self.root))
        return _labelled(images, known.mean, known.std, self.samples, self.pool)


@lru_cache(maxsize=4)
def _labelled(images: Images, mean: tuple[float, ...], std: tuple[float, ...], samples: int, pool: int) -> DataSet:
    """One object per data set, so that the runs of a process share what is on the device."""
    side = min(images.x_train.shape[2:])
    require(pool <= side, f"task.pool must be at most {side}, the side of the images, not {pool}")
    sets: list[tuple[Any, Any]] = []
    for name, x, y in (("train", images.x_train, images.y_train), ("test", images.x_test, images.y_test)):
        if samples and samples < len(y):
            kept = np.sort(keys.generator(0, f"subset of {name}").permutation(len(y))[:samples])
            x, y = x[kept], y[kept]
        sets.append((_pooled(x, pool), y.astype(np.int64)))
    return DataSet(*sets[0], *sets[1], mean, std)


def _pooled(pixels: Pixels, pool: int) -> Pixels:
    """The means of squares; rows and columns that fill no square are left out."""
    if pool == 1:
        return pixels
    n, channels, height, width = pixels.shape
    rows, columns = height // pool, width // pool
    squares = pixels[:, :, : rows * pool, : columns * pool].reshape(n, channels, rows, pool, columns, pool)
    return np.asarray(squares.mean((3, 5)).round().astype(np.uint8))


@dataclass(frozen=True)
class Svhn(ImageTask):
    """House numbers: official train and test files (not extra), crops, no flips."""

    dataset: ClassVar[Dataset] = DATASETS["svhn"]
    title: ClassVar[str] = dataset.title
    model: str = model_field("svhn_cnn")
    crop: Natural = 4


@dataclass(frozen=True)
class Cifar10(ImageTask):
    """Small photographs, crops and flips."""

    dataset: ClassVar[Dataset] = DATASETS["cifar10"]
    title: ClassVar[str] = dataset.title
    model: str = model_field("cifar10_cnn")
    crop: Natural = 4
    flip: bool = True


@dataclass(frozen=True)
class Cinic10(ImageTask):
    """CIFAR-10 extended with ImageNet; train and test (not valid), crops and flips, dropout in the network."""

    dataset: ClassVar[Dataset] = DATASETS["cinic10"]
    title: ClassVar[str] = dataset.title
    model: str = model_field("cinic10_cnn")
    crop: Natural = 4
    flip: bool = True


@dataclass(frozen=True)
class FashionMnist(ImageTask):
    """Articles of clothing: a lighter real data set, for softmax, mlp and cnn."""

    dataset: ClassVar[Dataset] = DATASETS["fashion_mnist"]
    title: ClassVar[str] = dataset.title
