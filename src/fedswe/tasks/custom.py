"""A task with your own model and data, in which every client loads its own samples."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedswe.errors import require
from fedswe.tasks.problem import Problem, Setting, Task

if TYPE_CHECKING:
    import torch
    from torch import nn

Samples = tuple["torch.Tensor", "torch.Tensor"]  # inputs [N, ...] and targets [N, ...]


@dataclass(frozen=True)
class CustomTask(Task):
    """Your own model and data: define the network, and how client i loads its samples.

    In a deployment a client loads only its own samples; the simulator and `fedswe deploy verify` load those of all.
    """

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
        """The loss of each sample, [N]."""
        from torch.nn import functional as F

        return F.cross_entropy(outputs, targets, reduction="none")

    def scores(self, outputs: torch.Tensor, targets: torch.Tensor) -> dict[str, float]:
        """The scores of a model on the test samples."""
        accuracy = float((outputs.argmax(1) == targets).double().mean())
        return {"test_loss": float(self.loss(outputs, targets).mean()), "test_accuracy": accuracy}

    def build(self, setting: Setting) -> Problem:
        from fedswe.tasks.custom_problem import CustomProblem  # imports torch

        return CustomProblem(self, setting)
