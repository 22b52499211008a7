"""DPFL's random and Markov participation: one client in rounds that would be empty.

fedswe run availability.name=./examples/availability/never_empty.py:NeverEmpty availability.base=stationary:p=0.5
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedswe.availability.composition import Composed
from fedswe.availability.model import Population
from fedswe.availability.schedule import Bools, Defined, Floats, Schedule
from fedswe.core import keys


@dataclass(frozen=True)
class NeverEmpty(Composed):
    """Another model; in a round without an available client, one client is drawn uniformly and made available.

    With q the probability that a round of the base is empty, p_i^t is that of the base plus q / m. It is not known
    where the clients of the base depend on each other. DPFL's random and Markov participation.
    """

    title: ClassVar[str] = "another model with one random client in rounds that would be empty"

    def schedule(self, who: Population, seed: int) -> Schedule:
        base, known = self.base.schedule(who, seed), self.base.dependence() != "clients"

        def prob(t: int) -> Floats:
            given = base.prob(t)
            return given + np.prod(1 - given) / who.m if known else np.full(who.m, np.nan)

        def sample(t: int) -> Bools:
            available = base.sample(t)
            if not available.any():
                available = available.copy()
                available[int(keys.uniform(seed, "client of an empty round", t) * who.m)] = True
            return available

        return Defined(who.m, base.rounds, prob, sample)
