"""Clients that join later, and clients that leave for good."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedswe.availability.composed import Composed
from fedswe.availability.model import Population
from fedswe.availability.schedule import Bools, Defined, Floats, Schedule
from fedswe.core import keys
from fedswe.errors import require


@dataclass(frozen=True)
class JoinLeave(Composed):
    """Another model, in which a client is available only from the round in which it joins to that in which it leaves.

    Each client is there from round 0 with probability `present`; otherwise it joins in a round drawn uniformly from 1
    to join_rounds. After joining it stays for a geometric number of rounds with mean stay_rounds, and never comes back.
    p_i^t is that of the base, and 0 before and after.
    """

    present: float = 0.5  # probability that a client is there from the beginning
    join_rounds: int = 200  # the others join within so many rounds
    stay_rounds: float = 500.0  # mean number of rounds until a client leaves for good; 0 = none leaves

    title: ClassVar[str] = "another model for clients that join within join_rounds and leave for good"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.present <= 1, f"present must be within [0, 1], not {self.present:g}")
        require(self.join_rounds >= 1, f"join_rounds must be at least 1, not {self.join_rounds}")
        stays = self.stay_rounds == 0 or 1 <= self.stay_rounds < math.inf
        require(stays, f"stay_rounds must be 0 (none leaves) or at least 1, not {self.stay_rounds:g}")

    def schedule(self, who: Population, seed: int) -> Schedule:
        base, client = self.base.schedule(who, seed), np.arange(who.m)
        first, when, how_long = (keys.uniform(seed, f"join and leave/{k}", client).numpy() for k in range(3))
        joins = np.where(first < self.present, 0, 1 + np.floor(when * self.join_rounds))
        leaves = np.full(who.m, np.inf)
        if self.stay_rounds == 1:
            leaves = joins + 1
        elif self.stay_rounds:
            leaves = joins + 1 + np.floor(np.log1p(-how_long) / math.log1p(-1 / self.stay_rounds))

        def prob(t: int) -> Floats:
            return np.where((joins <= t) & (t < leaves), base.prob(t), 0.0)

        def sample(t: int) -> Bools:
            return np.asarray(base.sample(t) & (joins <= t) & (t < leaves))

        return Defined(who.m, base.rounds, prob, sample)
