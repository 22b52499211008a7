"""A task of your own as a class: your model, and how each client loads its own samples."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedswe.errors import require
from fedswe.tasks.partition import clients_by_group
from fedswe.tasks.problem import Problem, Setting, Task

if TYPE_CHECKING:
    import torch
    from torch import nn

Samples = tuple["torch.Tensor", "torch.Tensor"]  # inputs [N, ...] and targets [N, ...]


@dataclass(frozen=True)
class CustomTask(Task):
    """Your own model and data: define the network, and how client i loads its samples."""

    clients: int = 4  # m, number of clients

    def __post_init__(self) -> None:
        require(1 <= self.clients <= 10**7, f"clients must be from 1 to 10^7, not {self.clients}")

    @abstractmethod
    def network(self) -> nn.Module:
        """The model with its initial parameters; torch's generator has the same seed everywhere."""

    @abstractmethod
    def load(self, client: int) -> Samples:
        """The training samples of one client."""

    def test(self) -> Samples | None:
        """The samples that models are evaluated on, if there are any."""
        return None

    def loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The loss of each sample, [N]; by default the cross-entropy."""
        from torch.nn import functional as F

        return F.cross_entropy(outputs, targets, reduction="none")

    def metrics(self) -> Sequence[str] | Mapping[str, Any] | None:
        """Scores besides the loss: names (accuracy, mae, rmse, r2), or functions of outputs and targets by name.

        None: the accuracy where the loss is the cross-entropy.
        """
        return None

    def groups(self) -> Sequence[str] | None:
        """The name of each client's group, to score the training samples of groups apart."""
        return None

    def train_scores(self) -> bool:
        """Whether models are scored on all training samples at every evaluation, which loads those of all clients."""
        return True

    def build(self, setting: Setting) -> Problem:
        from fedswe.tasks.loaded import loaded_problem  # these import torch
        from fedswe.tasks.losses import Objective

        own = type(self).loss is not CustomTask.loss
        objective = Objective.of(self.loss if own else "cross_entropy", self.metrics())
        groups = clients_by_group(self.groups(), self.clients)
        return loaded_problem(
            self.clients, self.network, self.load, self.test(), objective, groups, self.train_scores(),
            setting,
        )  # fmt: skip
