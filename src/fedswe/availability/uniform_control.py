"""A control: as many clients as another model has, but any of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedswe.availability.composed import Composed
from fedswe.availability.model import Dependence, Population
from fedswe.availability.schedule import Bools, Defined, Floats, Schedule, uniform_draws
from fedswe.core import keys


@dataclass(frozen=True)
class UniformControl(Composed):
    """In each round, as many clients as `base` has available, drawn uniformly from all without replacement.

    Only a simulation can do this: it takes away that some clients come more often than others, and keeps how many come.
    What an algorithm gains under it is what the bias of availability cost it; what it still lacks compared to `always`
    is the cost of fewer clients. p_i^t is the mean over the clients of the base's, and not known where those are not.
    """

    title: ClassVar[str] = "as many clients as another model has, drawn uniformly from all"

    def dependence(self) -> Dependence:
        return "clients"

    def cycle(self) -> int | None:
        return self.base.cycle()

    def schedule(self, who: Population, seed: int) -> Schedule:
        base, control = self.base.schedule(who, seed), keys.stream_key(seed, "uniform control")

        def prob(t: int) -> Floats:
            return np.full(who.m, base.prob(t).mean())

        def sample(t: int) -> Bools:
            number = int(base.sample(t).sum())
            chosen = np.zeros(who.m, dtype=bool)
            chosen[np.argsort(uniform_draws(control, t, who.m), kind="stable")[:number]] = True
            return chosen

        return Defined(who.m, base.rounds, prob, sample)
