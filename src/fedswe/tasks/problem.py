"""What engines need from a task: an initial model, stochastic gradients by client and round, and scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedswe.availability.schedule import Floats
from fedswe.core.checked import Checked
from fedswe.core.local import Precision

if TYPE_CHECKING:
    import torch

    from fedswe.core.records import Vector


@dataclass(frozen=True)
class Setting:
    """Seed, number format and device that a problem is built for."""

    seed: int
    dtype: torch.dtype
    device: torch.device
    legacy: np.random.RandomState | None = None  # draw the partition from the released code's generator


class Problem(ABC):
    """The clients' objectives F_i and their data. The global objective is the uniform mean over clients."""

    m: int
    start: Vector  # x^0, [d]
    drawn: Floats | None = None  # label shares as drawn and as realised; None without labels
    realised: Floats | None = None

    @abstractmethod
    def draw(self, clients: torch.Tensor, t: int, steps: int, batch_size: int) -> Iterable[Any]:
        """The batches of each local step of round t: records whose fields are stacked over `clients` [n]."""

    @abstractmethod
    def gradient(self, x: Vector, batch: Any, precision: Precision = "fp32") -> Vector:
        """One client's stochastic gradient [d] at x [d]: the plain definition."""

    @abstractmethod
    def gradients(self, x: Vector, batch: Any, precision: Precision = "fp32") -> Vector:
        """The same for n clients at once: [n, d] at x [n, d]."""

    def family(self) -> object:
        """Problems of one family can be trained as one stack; by default each problem is trained alone."""
        return id(self)

    def joined(self, drawn: list[Any]) -> Any:
        """The draws of several problems of this family as one."""
        raise TypeError(f"{type(self).__name__} is trained alone")

    def row_size(self, batch_size: int) -> int:
        """How many numbers one client's batch holds; 0 when it does not matter."""
        return 0

    @abstractmethod
    def full_gradients(self, x: Vector, clients: torch.Tensor) -> Vector:
        """The exact gradients of F_i, [n, d] at x [n, d], for the given clients."""

    def state_dict(self, x: Vector) -> dict[str, torch.Tensor]:
        """A model as named tensors with their shapes, as torch's modules have them."""
        return {"x": x}

    @abstractmethod
    def evaluate(self, x: Vector) -> dict[str, float]:
        """Named scores of a model, e.g. train_loss and test_accuracy."""


@dataclass(frozen=True)
class Task(Checked, ABC):
    """A named task with its parameters; ``build`` makes the problem of one run."""

    title: ClassVar[str]

    @abstractmethod
    def build(self, setting: Setting) -> Problem:
        """Load the data, divide them among clients, choose x^0."""
