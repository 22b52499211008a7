"""A control: as many clients as another model has, but any of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fedswe.availability.dynamics import Sine
from fedswe.availability.model import Availability, Population
from fedswe.availability.schedule import Bools, Floats, Schedule, uniform_draws
from fedswe.core import keys


@dataclass(frozen=True)
class UniformControl(Availability):
    """In each round, as many clients as `base` has available, drawn uniformly from all without replacement.

    Only a simulation can do this: it takes away that some clients come more often than others, and keeps how many come.
    What an algorithm gains under it is what the bias of availability cost it; what it still lacks compared to `always`
    is the cost of fewer clients. p_i^t is the mean over the clients of the base's, and not known where those are not.
    """

    base: Availability = field(default_factory=Sine)  # the model whose numbers of clients are used: "sine:gamma=0.2"

    title: ClassVar[str] = "as many clients as another model has, drawn uniformly from all"

    def rounds(self) -> int | None:
        return self.base.rounds()

    def clients(self) -> int | None:
        return self.base.clients()

    def cycle(self) -> int | None:
        return self.base.cycle()

    def schedule(self, who: Population, seed: int) -> Schedule:
        return Anybody(self.base.schedule(who, seed), keys.stream_key(seed, "uniform control"))


class Anybody:
    """The schedule of a control."""

    def __init__(self, base: Schedule, seed: int) -> None:
        self.m, self.rounds, self._base, self._seed = base.m, base.rounds, base, seed

    def prob(self, t: int) -> Floats:
        return np.full(self.m, self._base.prob(t).mean())

    def sample(self, t: int) -> Bools:
        number = int(self._base.sample(t).sum())
        chosen = np.zeros(self.m, dtype=bool)
        chosen[np.argsort(uniform_draws(self._seed, t, self.m), kind="stable")[:number]] = True
        return chosen
