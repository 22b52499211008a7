"""What a server or a simulator makes of the available clients: a sample of them, or a client where there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedswe.availability.composed import Composed
from fedswe.availability.dynamics import Always
from fedswe.availability.model import Dependence, Population
from fedswe.availability.schedule import Bools, Defined, Floats, Schedule, uniform_draws
from fedswe.core import keys
from fedswe.errors import require


@dataclass(frozen=True)
class Sampled(Composed):
    """In each round, `number` of the clients that another model has available, drawn without replacement.

    If fewer are available, all of them. With base = "always", p_i^t = number / m; with number >= m it is that of the
    base; otherwise it is not known.
    """

    number: int = 10  # S, clients drawn in each round

    title: ClassVar[str] = "a random sample of the available clients in each round"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.number >= 1, f"number must be at least 1, not {self.number}")

    def dependence(self) -> Dependence:
        return "clients"

    def cycle(self) -> int | None:
        return 1 if isinstance(self.base, Always) else None

    def schedule(self, who: Population, seed: int) -> Schedule:
        base, sampling = self.base.schedule(who, seed), keys.stream_key(seed, "sample of the available")
        if self.number >= who.m:
            return base
        share = self.number / who.m if isinstance(self.base, Always) else np.nan

        def sample(t: int) -> Bools:
            available = np.flatnonzero(base.sample(t))
            chosen = np.zeros(who.m, dtype=bool)
            if len(available) > self.number:
                draws = uniform_draws(sampling, t, who.m)[available]
                available = available[np.argpartition(draws, self.number)[: self.number]]
            chosen[available] = True
            return chosen

        return Defined(who.m, base.rounds, lambda t: np.full(who.m, share), sample)


@dataclass(frozen=True)
class NeverEmpty(Composed):
    """Another model; in a round without an available client, one client is drawn uniformly and made available.

    With q the probability that a round of the base is empty, p_i^t is that of the base plus q / m. It is not known
    where the clients of the base depend on each other. DPFL's random and Markov participation.
    """

    title: ClassVar[str] = "another model with one random client in rounds that would be empty"

    def dependence(self) -> Dependence:
        return "clients"

    def cycle(self) -> int | None:
        return self.base.cycle()

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
