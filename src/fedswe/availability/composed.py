"""Models that change another one, which they name: availability.base = "sine:gamma=0.2"."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass, field

from fedswe.availability.dynamics import Stationary
from fedswe.availability.model import Availability, Dependence, Probabilistic
from fedswe.errors import require


@dataclass(frozen=True)
class Composed(Availability, ABC):
    """The base of models that change another model."""

    base: Availability = field(default_factory=Stationary)  # the model that is changed: a name, or "sine:gamma=0.2"

    def __post_init__(self) -> None:
        legacy = isinstance(self.base, Probabilistic) and self.base.stream == "legacy"
        require(not legacy, 'base has stream = "legacy", which only a model that is not changed can have')

    def rounds(self) -> int | None:
        return self.base.rounds()

    def clients(self) -> int | None:
        return self.base.clients()

    def dependence(self) -> Dependence:
        return self.base.dependence()
