"""Classification: labelled data divided among clients, a network, and the cross-entropy."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, Literal

from fedswe import plugins
from fedswe.core import keys
from fedswe.errors import require, suggestion
from fedswe.tasks.data_set import DataSet
from fedswe.tasks.partition import Partition, divide, held_out
from fedswe.tasks.problem import Problem, Setting, Task

MODELS = ("softmax", "mlp", "cnn", "svhn_cnn", "cifar10_cnn", "cinic10_cnn")  # NETWORKS, without importing torch


def model_field(default: str) -> Any:
    """A field that may name a user's function."""
    return field(default=default, metadata={"function": "model"})


@dataclass(frozen=True)
class ClassificationTask(Task):
    """A labelled data set, divided among clients."""

    clients: int = 50  # m, number of clients
    alpha: float = 0.1  # concentration: smaller is more heterogeneous
    partition: Partition = "dirichlet"  # "two_groups", "shards", "uneven" (sizes), "iid"; see docs/extending.md
    shards: int = 2  # pieces of the sorted data for each client, with partition = "shards"
    hold_out: float = 0.0  # fraction of the training samples no client gets; scored as held_out_loss, held_out_accuracy
    score_train: bool = True  # score models on the training samples too, which takes most of the time of an evaluation
    model: str = model_field("softmax")  # "mlp", "cnn", "svhn_cnn", "cifar10_cnn", "cinic10_cnn", or "./file.py:make"
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
        require(self.shards >= 1, f"shards must be at least 1, not {self.shards}")
        require(
            self.model in MODELS or ":" in self.model,
            f"unknown model {self.model!r}: {suggestion(self.model, MODELS)}, or name a function, ./file.py:make",
        )

    @abstractmethod
    def load(self) -> DataSet:
        """The data set; read once and shared by the tasks of a process."""

    def build(self, setting: Setting) -> Problem:
        from fedswe.tasks import checks  # these import torch
        from fedswe.tasks.augment import Augmentation
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
        samples = PooledSamples(data, divided.parts, setting, kept_back, scores_train=self.score_train)
        network = initial_network(lambda: self._module(shape, data.classes), setting.seed)
        border = data.black if self.border == "black" else (0.0,) * shape[0]
        problem = SupervisedProblem(
            samples,
            network,
            Objective.of("cross_entropy"),
            setting,
            Augmentation(self.crop, self.flip, self.augment),
            border,
        )
        if self.model not in MODELS:
            few = samples.data.x_train[:4], samples.data.y_train[:4]
            checks.check_fit(network, problem.objective, problem.start, few, self.model)
            checks.probe(network, problem.objective, problem.start, few)
        problem.drawn, problem.realised, problem.sizes = divided.drawn, divided.realised, divided.sizes
        return problem

    def _module(self, shape: tuple[int, ...], classes: int) -> object:
        from fedswe.tasks.networks import NETWORKS, kaiming_last_layer

        if self.model not in MODELS:
            return plugins.called("model", self.model, shape, classes)
        module = NETWORKS[self.model](shape, classes)
        if self.last_layer == "kaiming":
            kaiming_last_layer(module)
        return module
