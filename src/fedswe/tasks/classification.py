"""Classification: labelled data divided among clients, a network, and the cross-entropy; digits, and data in a file."""

from __future__ import annotations

import importlib.metadata
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedswe.core import keys
from fedswe.core.value import Count, Natural, Positive
from fedswe.errors import mistakes_as, require, suggestion
from fedswe.plugins import called
from fedswe.tasks.data_set import MOST_CLASSES, Array, DataSet, samples
from fedswe.tasks.partition import Partition, divide, held_out
from fedswe.tasks.problem import Problem, Setting, Task, Weights

Fraction = Annotated[float, Field(ge=0, lt=1)]
MODELS = ("softmax", "mlp", "cnn", "svhn_cnn", "cifar10_cnn", "cinic10_cnn")  # NETWORKS, without importing torch


def model_field(default: str) -> Any:
    """A field that may name a user's function."""
    return field(default=default, metadata={"function": "model"})


@dataclass(frozen=True)
class ClassificationTask(Task):
    """A labelled data set, divided among clients."""

    clients: Count = 50  # m, number of clients
    alpha: Positive = 0.1  # concentration: smaller is more heterogeneous
    partition: Partition = "dirichlet"  # "two_groups", "shards", "uneven" (sizes), "iid"; see docs/extending.md
    shards: Count = 2  # pieces of the sorted data for each client, with partition = "shards"
    hold_out: Fraction = 0.0  # of the training samples, no client's; scored as held_out_loss, held_out_accuracy
    score_train: bool = True  # score models on the training samples too, which takes most of the time of an evaluation
    model: str = model_field("softmax")  # "mlp", "cnn", "svhn_cnn", "cifar10_cnn", "cinic10_cnn", or "./file.py:make"
    last_layer: Literal["default", "kaiming"] = "default"  # initialisation: torch's (the released code), Kaiming-normal
    crop: Natural = 0  # train on random crops after padding by this many pixels
    flip: bool = False  # train on images mirrored at random
    augment: Literal["image", "batch"] = "image"  # one crop and flip per image, or per batch of a step (released code)
    border: Literal["mean", "black"] = "mean"  # colour of the padding: 0 after normalisation, or 0 before it
    weights: Weights = None  # of the clients: "samples", or a list of numbers; default: all count the same

    def __post_init__(self) -> None:
        known = self.model in MODELS or ":" in self.model
        require(known, f"unknown model {self.model!r}: {suggestion(self.model, MODELS)}, or a function, ./file.py:make")

    @abstractmethod
    def load(self) -> DataSet:
        """The data set; read once and shared by the tasks of a process."""

    def build(self, setting: Setting) -> Problem:
        from fedswe.tasks.batches import Augmentation  # these import torch
        from fedswe.tasks.client_samples import PooledSamples
        from fedswe.tasks.losses import Objective
        from fedswe.tasks.network import initial_network
        from fedswe.tasks.supervised_problem import SupervisedProblem

        data = self.load()
        shape = data.x_train.shape[1:]
        require(len(shape) == 3 or not (self.crop or self.flip), "task.crop and task.flip need images")
        given, kept_back = held_out(len(data.y_train), self.hold_out)
        rng = setting.legacy or keys.generator(setting.seed, "partition")
        divided = divide(given, data.y_train, self.clients, self.partition, self.alpha, self.shards, rng, data.classes)
        pooled = PooledSamples(data, divided.parts, setting, kept_back, scores_train=self.score_train)
        network = initial_network(lambda: self._module(shape, data.classes), setting.seed)
        border = data.black if self.border == "black" else (0.0,) * shape[0]
        changes = Augmentation(self.crop, self.flip, self.augment)
        problem = SupervisedProblem(pooled, network, Objective.of("cross_entropy"), setting, changes, border)
        if self.model not in MODELS:
            from fedswe.tasks.checks import check

            everything = pooled.data.x_train, pooled.data.y_train
            check(network, problem.objective, problem.start, everything, lambda sample: self.model)
        problem.drawn, problem.realised, problem.sizes = divided.drawn, divided.realised, divided.sizes
        problem.weigh(self.weights)
        return problem

    def _module(self, shape: tuple[int, ...], classes: int) -> object:
        from fedswe.tasks.networks import NETWORKS, kaiming_last_layer

        if self.model not in MODELS:
            return called("model", self.model, shape, classes)
        module = NETWORKS[self.model](shape, classes)
        if self.last_layer == "kaiming":
            kaiming_last_layer(module)
        return module


@dataclass(frozen=True)
class Digits(ClassificationTask):
    """The 8x8 digits of scikit-learn: 1,797 images in ten classes; a fixed fifth of them, the same for every seed, is
    the test set."""

    title: ClassVar[str] = "handwritten digits, 8x8 (UCI, from scikit-learn)"

    def load(self) -> DataSet:
        return _digits()


@lru_cache(maxsize=1)
def _digits() -> DataSet:
    # Read from the package's file: importing scikit-learn takes a second.
    file = importlib.metadata.distribution("scikit-learn").locate_file("sklearn/datasets/data/digits.csv.gz")
    table = np.loadtxt(str(file), delimiter=",")
    labels = table[:, -1].astype(np.int64)
    images = (table[:, :-1] / 16.0).reshape(-1, 1, 8, 8)
    order = keys.generator(0, "digits test set").permutation(len(labels))
    test, train = np.sort(order[: len(order) // 5]), np.sort(order[len(order) // 5 :])
    return DataSet(images[train], labels[train], images[test], labels[test])


@dataclass(frozen=True)
class Npz(ClassificationTask):
    """Arrays x_train, y_train, x_test, y_test; inputs are standardised per channel by the training set.

    Images are [N, H, W], [N, H, W, channels] or [N, channels, H, W] with 1, 3 or 4 channels; anything else is
    taken as flat features [N, ...]. Labels are integers from 0.
    """

    file: str = ""  # path of the .npz file

    title: ClassVar[str] = "a data set in a .npz file"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.file, "task.file is missing: give the path of the .npz with x_train, y_train, x_test, y_test")

    def load(self) -> DataSet:
        require(Path(self.file).is_file(), f"task.file: there is no file {self.file}")
        status = Path(self.file).stat()
        return _npz(self.file, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=2)
def _npz(file: str, _modified: int, _size: int) -> DataSet:
    """Read, check and standardise; kept while the file stays as it is."""
    names = ("x_train", "y_train", "x_test", "y_test")
    reading = mistakes_as(f"{file} cannot be read as .npz", ": is it complete, and made by numpy.savez?")
    with reading, open(file, "rb") as handle, np.load(handle, allow_pickle=False) as stored:  # closed also if damaged
        missing = [name for name in names if name not in stored]
        require(not missing, f"{file} has no array {', '.join(missing)}: it needs {', '.join(names)}")
        arrays = [stored[name] for name in names]
    train = samples(arrays[:2], f"{file}, x_train and y_train")
    test = samples(arrays[2:], f"{file}, x_test and y_test", train)
    x_train, x_test = (_channels_first(x.astype(np.float32)) for x, _ in (train, test))
    axes = (0, 2, 3) if x_train.ndim == 4 else (0,)
    mean = x_train.mean(axes, keepdims=True, dtype=np.float64).astype(np.float32)
    std = x_train.std(axes, keepdims=True, dtype=np.float64).astype(np.float32)
    std[std == 0] = 1.0
    y_train, y_test = (_classes(y, f"{file}: {name}") for name, (_, y) in (("y_train", train), ("y_test", test)))
    channels = tuple(mean.ravel().tolist()), tuple(std.ravel().tolist())
    return DataSet((x_train - mean) / std, y_train, (x_test - mean) / std, y_test, *channels)


def _channels_first(x: Array) -> Array:
    if x.ndim == 3:
        return x[:, None]
    if x.ndim == 4 and x.shape[3] in (1, 3, 4):
        return np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    return x if x.ndim == 4 and x.shape[1] in (1, 3, 4) else x.reshape(len(x), -1)


def _classes(y: Array, where: str) -> Array:
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    classes = y.ndim == 1 and bool((y == np.floor(y)).all()) and y.min() >= 0 and y.max() < MOST_CLASSES
    require(classes, f"{where} must hold one class per sample, integers from 0 to {MOST_CLASSES - 1} at most")
    return y.astype(np.int64)
