"""Models that change another one, which they name: availability.base = "sine:gamma=0.2"."""

from __future__ import annotations

import math
from abc import ABC
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fedswe.availability.dynamics import Always, Stationary
from fedswe.availability.markov import Chains
from fedswe.availability.model import Availability, Dependence, Part, Population, Probabilistic
from fedswe.availability.schedule import Bools, Defined, Floats, Schedule, uniform_draws
from fedswe.core import keys
from fedswe.core.value import Count, Probability
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
        return "clients"

    def cycle(self) -> int | None:
        return self.base.cycle()


@dataclass(frozen=True)
class Outages(Composed):
    """Another model, and outages in which no client of a region is available.

    Client i belongs to region i mod `regions`. Each region is out in a share `share` of the rounds, for `length` rounds
    in the mean, independently of the others: a two-state chain in its stationary law. p_i^t is that of the base times
    1 - share; it does not know whether there is an outage.
    """

    regions: Count = 5  # number of regions
    share: Part = 0.1  # share of the rounds in which a region is out
    length: float = 20.0  # mean length of an outage in rounds

    title: ClassVar[str] = "regions of clients that are out together, on top of another model"

    def __post_init__(self) -> None:
        super().__post_init__()
        least = max(1.0, self.share / (1 - self.share))
        rule = f"length must be at least {least:g} rounds for a share of {self.share:g}"
        require(least <= self.length < np.inf, f"{rule}, not {self.length:g}")

    def schedule(self, who: Population, seed: int) -> Schedule:
        base, region = self.base.schedule(who, seed), np.arange(who.m) % self.regions
        begins = self.share / (1 - self.share) / self.length
        out = Chains(np.full(self.regions, self.share), keys.stream_key(seed, "outages"), begins)

        def prob(t: int) -> Floats:
            return (1 - self.share) * base.prob(t)

        def sample(t: int) -> Bools:
            return np.asarray(base.sample(t) & ~out.sample(t)[region])

        return Defined(who.m, base.rounds, prob, base.sample if self.share == 0 else sample)


@dataclass(frozen=True)
class JoinLeave(Composed):
    """Another model, in which a client is available only from the round in which it joins to that in which it leaves.

    Each client is there from round 0 with probability `present`; otherwise it joins in a round drawn uniformly from 1
    to join_rounds. After joining it stays for a geometric number of rounds with mean stay_rounds, and never comes back.
    p_i^t is that of the base, and 0 before and after.
    """

    present: Probability = 0.5  # probability that a client is there from the beginning
    join_rounds: Count = 200  # the others join within so many rounds
    stay_rounds: float = 500.0  # mean number of rounds until a client leaves for good; 0 = none leaves

    title: ClassVar[str] = "another model for clients that join within join_rounds and leave for good"

    def __post_init__(self) -> None:
        super().__post_init__()
        stays = self.stay_rounds == 0 or 1 <= self.stay_rounds < math.inf
        require(stays, f"stay_rounds must be 0 (none leaves) or at least 1, not {self.stay_rounds:g}")

    def dependence(self) -> Dependence:
        return self.base.dependence()

    def cycle(self) -> int | None:
        return None

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


@dataclass(frozen=True)
class Sampled(Composed):
    """In each round, `number` of the clients that another model has available, drawn without replacement.

    If fewer are available, all of them. With base = "always", p_i^t = number / m; with number >= m it is that of the
    base; otherwise it is not known.
    """

    number: Count = 10  # S, clients drawn in each round

    title: ClassVar[str] = "a random sample of the available clients in each round"

    def cycle(self) -> int | None:
        return 1 if isinstance(self.base, Always) else None

    def schedule(self, who: Population, seed: int) -> Schedule:
        base, sampling = self.base.schedule(who, seed), keys.stream_key(seed, "sample of the available")
        if self.number >= who.m:
            return base
        share = self.number / who.m if isinstance(self.base, Always) else np.nan

        def sample(t: int) -> Bools:
            available, chosen = base.sample(t), np.zeros(who.m, dtype=bool)
            draws = np.where(available, uniform_draws(sampling, t, who.m), 1.0)  # others come last
            chosen[np.argpartition(draws, self.number)[: self.number]] = True
            return chosen & available

        return Defined(who.m, base.rounds, lambda t: np.full(who.m, share), sample)


@dataclass(frozen=True)
class UniformControl(Composed):
    """In each round, as many clients as `base` has available, drawn uniformly from all without replacement.

    Only a simulation can do this: it takes away that some clients come more often than others, and keeps how many come.
    What an algorithm gains under it is what the bias of availability cost it; what it still lacks compared to `always`
    is the cost of fewer clients. p_i^t is the mean over the clients of the base's, and not known where those are not.
    """

    title: ClassVar[str] = "as many clients as another model has, drawn uniformly from all"

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
