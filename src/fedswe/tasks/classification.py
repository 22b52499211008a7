"""Classification: labelled data divided among clients, a network, and the cross-entropy."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedswe.core import keys
from fedswe.errors import FedsweError, require
from fedswe.tasks.labelled_data import Labelled
from fedswe.tasks.partition import (
    Partition,
    dirichlet_shares,
    grouped_shares,
    held_out,
    partition,
    realised_shares,
    two_groups,
)
from fedswe.tasks.problem import Problem, Setting, Task

Model = Literal["softmax", "mlp", "cnn", "svhn_cnn", "cifar10_cnn", "cinic10_cnn"]


@dataclass(frozen=True)
class ClassificationTask(Task):
    """A labelled data set, divided among clients by the Dirichlet partition."""

    clients: int = 50  # m, number of clients
    alpha: float = 0.1  # concentration: smaller is more heterogeneous
    partition: Partition = "dirichlet"  # "two_groups": half of the clients own half of the classes, the rest the others
    hold_out: float = 0.0  # fraction of the training samples no client gets; scored as held_out_loss, held_out_accuracy
    model: Model = "softmax"  # "softmax", "mlp", "cnn"; for 32x32 colour "svhn_cnn", "cifar10_cnn", "cinic10_cnn"
    last_layer: Literal["default", "kaiming"] = "default"  # initialisation: torch's (the released code), Kaiming-normal
    crop: int = 0  # train on random crops after padding by this many pixels
    flip: bool = False  # train on images mirrored at random
    augment: Literal["image", "batch"] = "image"  # one crop and flip per image, or per batch of a step (released code)
    border: Literal["mean", "black"] = "mean"  # colour of the padding: 0 after normalisation, or 0 before it

    def __post_init__(self) -> None:
        require(self.clients >= 1, f"clients must be at least 1, not {self.clients}")
        require(0 < self.alpha < float("inf"), f"alpha must be positive, not {self.alpha:g}")
        require(self.crop >= 0, f"crop must be 0 (off) or positive, not {self.crop}")
        require(0 <= self.hold_out < 1, f"hold_out must be a fraction below 1, not {self.hold_out:g}")

    @abstractmethod
    def load(self) -> Labelled:
        """The data set; read once and shared by the tasks of a process."""

    def build(self, setting: Setting) -> Problem:
        from fedswe.tasks.augment import Augmentation  # these import torch
        from fedswe.tasks.classification_problem import ClassificationProblem, initial_network

        data = self.load()
        shape = data.x_train.shape[1:]
        require(len(shape) == 3 or not (self.crop or self.flip), "task.crop and task.flip need images")
        given, kept_back = held_out(len(data.y_train), self.hold_out)
        require(
            self.clients <= len(given),
            f"there are {len(given)} training samples for {self.clients} clients: lower task.clients",
        )
        rng = setting.legacy or keys.generator(setting.seed, "partition")
        owners = two_groups(self.clients, data.classes) if self.partition == "two_groups" else None
        drawn = (
            dirichlet_shares(rng, self.alpha, self.clients, data.classes)
            if owners is None
            else grouped_shares(rng, self.alpha, owners)
        )
        labels = data.y_train[given]
        parts = [given[part] for part in partition(labels, drawn, owners)]
        empty = [i for i, part in enumerate(parts) if not len(part)]
        if empty:
            # Equal shares (large alpha) give every client a sample only of classes with a sample for each client. Where
            # no class has that many, fewer clients share each class at a small alpha, and more of them get a sample.
            even = np.bincount(labels).max() >= self.clients
            change = "lower task.clients or raise task.alpha" if even else "lower task.clients or task.alpha"
            raise FedsweError(
                f"client {empty[0]} has no data ({len(empty)} of {self.clients} clients are empty): "
                f"{change}, or try another seed"
            )
        problem = ClassificationProblem(
            data,
            parts,
            initial_network(self.model, self.last_layer == "kaiming", shape, data.classes, setting.seed),
            setting,
            Augmentation(self.crop, self.flip, self.augment),
            border=data.black if self.border == "black" else None,
            kept_back=kept_back,
        )
        problem.drawn = drawn
        problem.realised = realised_shares(data.y_train, parts, data.classes)
        return problem
