"""Regional outages: clients of one region lose availability together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedswe.availability.composed import Composed
from fedswe.availability.markov import Chains
from fedswe.availability.model import Dependence, Population
from fedswe.availability.schedule import Bools, Defined, Floats, Schedule
from fedswe.core import keys
from fedswe.errors import require


@dataclass(frozen=True)
class Outages(Composed):
    """Another model, and outages in which no client of a region is available.

    Client i belongs to region i mod `regions`. Each region is out in a share `share` of the rounds, for `length` rounds
    in the mean, independently of the others: a two-state chain in its stationary law. p_i^t is that of the base times
    1 - share; it does not know whether there is an outage.
    """

    regions: int = 5  # number of regions
    share: float = 0.1  # share of the rounds in which a region is out
    length: float = 20.0  # mean length of an outage in rounds

    title: ClassVar[str] = "regions of clients that are out together, on top of another model"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.regions >= 1, f"regions must be at least 1, not {self.regions}")
        require(0 <= self.share < 1, f"share must be in [0, 1), not {self.share:g}")
        least = max(1.0, self.share / (1 - self.share))
        require(
            least <= self.length < np.inf,
            f"length must be at least {least:g} rounds for a share of {self.share:g}, not {self.length:g}",
        )

    def dependence(self) -> Dependence:
        return "clients"

    def cycle(self) -> int | None:
        return self.base.cycle()

    def schedule(self, who: Population, seed: int) -> Schedule:
        base, region = self.base.schedule(who, seed), np.arange(who.m) % self.regions
        begins = self.share / (1 - self.share) / self.length
        out = Chains(np.full(self.regions, self.share), keys.stream_key(seed, "outages"), begins)

        def prob(t: int) -> Floats:
            return (1 - self.share) * base.prob(t)

        def sample(t: int) -> Bools:
            return np.asarray(base.sample(t) & ~out.sample(t)[region])

        return Defined(who.m, base.rounds, prob, base.sample if self.share == 0 else sample)
