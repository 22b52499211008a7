"""The paper's data sets, and Fashion-MNIST as a lighter real one, with the paper's number of clients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from fedswe.datasets import DATASETS, Images, load
from fedswe.datasets.locate import folder_of
from fedswe.tasks.classification import ClassificationTask, model_field
from fedswe.tasks.data_set import DataSet


@dataclass(frozen=True)
class ImageTask(ClassificationTask):
    """Images from official files, normalised with fixed statistics. A run never downloads: `fedswe data fetch` does."""

    clients: int = 100  # m
    root: str = ""  # folder with the official files; default: the one `fedswe data list` names

    dataset: ClassVar[str]

    def load(self) -> DataSet:
        known = DATASETS[self.dataset]
        return _labelled(load(known, folder_of(known, self.root)), known.mean, known.std)


@lru_cache(maxsize=4)
def _labelled(images: Images, mean: tuple[float, ...], std: tuple[float, ...]) -> DataSet:
    """One object per data set, so that the runs of a process share what is on the device."""
    y_train, y_test = (y.astype(np.int64) for y in (images.y_train, images.y_test))
    return DataSet(images.x_train, y_train, images.x_test, y_test, mean, std)


@dataclass(frozen=True)
class Svhn(ImageTask):
    """House numbers: official train and test files (not extra), crops, no flips."""

    model: str = model_field("svhn_cnn")
    crop: int = 4

    dataset: ClassVar[str] = "svhn"
    title: ClassVar[str] = DATASETS["svhn"].title


@dataclass(frozen=True)
class Cifar10(ImageTask):
    """Small photographs, crops and flips."""

    model: str = model_field("cifar10_cnn")
    crop: int = 4
    flip: bool = True

    dataset: ClassVar[str] = "cifar10"
    title: ClassVar[str] = DATASETS["cifar10"].title


@dataclass(frozen=True)
class Cinic10(ImageTask):
    """CIFAR-10 extended with ImageNet; train and test (not valid), crops and flips, dropout in the network."""

    model: str = model_field("cinic10_cnn")
    crop: int = 4
    flip: bool = True

    dataset: ClassVar[str] = "cinic10"
    title: ClassVar[str] = DATASETS["cinic10"].title


@dataclass(frozen=True)
class FashionMnist(ImageTask):
    """Articles of clothing: a lighter real data set, for softmax, mlp and cnn."""

    dataset: ClassVar[str] = "fashion_mnist"
    title: ClassVar[str] = DATASETS["fashion_mnist"].title
