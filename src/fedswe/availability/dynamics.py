"""Models in which every client is drawn for itself, or has its turn: always, stationary, sine, groups, an adversary."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedswe.availability.model import Availability, Population, Probabilistic
from fedswe.availability.schedule import Bernoulli, Bools, Defined, Floats, Schedule
from fedswe.core.value import Count, Probability, Share
from fedswe.errors import require


@dataclass(frozen=True)
class Always(Availability):
    """Every client is available in every round."""

    title: ClassVar[str] = "full availability: p_i^t = 1"

    def schedule(self, who: Population, seed: int) -> Schedule:
        return Bernoulli(who.m, seed, lambda t: np.ones(who.m))

    def cycle(self) -> int:
        return 1


@dataclass(frozen=True)
class Stationary(Probabilistic):
    """The same probability in every round."""

    title: ClassVar[str] = "p_i^t = p_i"

    def factor(self, t: int, m: int) -> float:
        return 1.0

    def cycle(self) -> int:
        return 1


@dataclass(frozen=True)
class Staircase(Probabilistic):
    """Full probability in the first half of each period, a lower step in the second."""

    period: Count = 20  # rounds of one period
    low: Probability = 0.4  # factor of p_i in the second half of a period

    title: ClassVar[str] = "p_i^t = p_i in the first half of each period, low * p_i in the second"

    def factor(self, t: int, m: int) -> float:
        return 1.0 if 2 * (t % self.period) < self.period else self.low

    def cycle(self) -> int:
        return self.period


@dataclass(frozen=True)
class Sine(Probabilistic):
    """p_i times a sine between 1 - 2 gamma and 1."""

    gamma: Annotated[float, Field(ge=0, le=0.5)] = 0.3  # amplitude: the factor of p_i moves between 1 - 2 gamma and 1
    period: Count = 20  # rounds of one period

    title: ClassVar[str] = "p_i^t = p_i (gamma sin(2 pi t / period) + 1 - gamma)"

    def factor(self, t: int, m: int) -> float:
        return self.gamma * math.sin(2 * math.pi * t / self.period) + (1 - self.gamma)

    def cycle(self) -> int:
        return self.period


@dataclass(frozen=True)
class InterleavedSine(Sine):
    """The sine, set to zero below a threshold: rarely available clients are absent for part of each period."""

    cutoff: Probability = 0.1  # probabilities below it become 0

    title: ClassVar[str] = "the sine's p_i^t where it is at least cutoff, else 0"

    def probabilities(self, t: int, base: Floats) -> Floats:
        prob = super().probabilities(t, base)
        return np.where(prob >= self.cutoff, prob, 0.0)


@dataclass(frozen=True)
class Alternating(Probabilistic):
    """The first half of the clients in the first half of each period, the others in the second half."""

    period: Annotated[int, Field(ge=2, multiple_of=2)] = 100  # P, rounds of one period; each group has P/2 of them
    inside: Literal["static", "staircase"] = "static"  # p_i in the own window, or p_i and low * p_i in turns
    low: Probability = 0.4  # factor of p_i on the lower step of the staircase
    stair_period: int = 50  # rounds of one full stair inside the window; the paper gives none, 50 fills its window

    title: ClassVar[str] = "two groups, available in turns of period/2 rounds; p_i^t = p_i f(t) in the own window"

    def __post_init__(self) -> None:
        super().__post_init__()
        most, window = self.period - 2, self.period // 2
        rule = f"stair_period must be from 2 to {most} for a step down in windows of {window} rounds"
        require(self.inside == "static" or 2 <= self.stair_period <= most, f"{rule}, not {self.stair_period}")

    def factor(self, t: int, m: int) -> Floats:
        window, inside = divmod(t % self.period, self.period // 2)
        second = np.arange(m) >= (m + 1) // 2
        stair = self.inside == "staircase" and 2 * (inside % self.stair_period) >= self.stair_period
        return np.where(second == bool(window), self.low if stair else 1.0, 0.0)

    def cycle(self) -> int:
        return self.period


@dataclass(frozen=True)
class Cyclic(Probabilistic):
    """Client i belongs to group i mod `groups`; only one group can be available, the next one after `turn` rounds."""

    groups: Count = 5  # number of groups
    turn: Count = 1  # consecutive rounds of a group; 100 in the periodic availability of gFedAvg's experiments

    title: ClassVar[str] = "p_i^t = p_i when i mod groups = floor(t / turn) mod groups, else 0"

    def factor(self, t: int, m: int) -> Floats:
        return np.where(np.arange(m) % self.groups == t // self.turn % self.groups, 1.0, 0.0)

    def cycle(self) -> int:
        return self.groups * self.turn


@dataclass(frozen=True)
class Adversarial(Availability):
    """The least availability that Assumption 1 allows with this delta and P_delta = period, at the worst time.

    Each client is available in exactly c = ceil(delta * period) consecutive rounds of every window of `period` rounds
    that begins at a multiple of it. Clients are sorted by the mean of their labels (by number if they have none) and
    cut into groups, so that clients with similar data are available together and others are not. The blocks of the
    groups are spread evenly over the window, from its first c rounds to its last; every second window is mirrored. The
    first and the last group then have 2 c rounds in a row and are away for 2 (period - c), the longest absence that the
    guarantee allows. Nothing is random: p_i^t is 0 or 1.
    """

    delta: Share = 0.1  # share of the rounds of every window in which each client is available
    period: Count = 100  # rounds of a window
    groups: Count = 2  # groups of clients with similar labels, each available at another time

    title: ClassVar[str] = "deterministic; every client in a share delta of each window, at the worst time"

    def cycle(self) -> int:
        return 2 * self.period

    def schedule(self, who: Population, seed: int) -> Schedule:
        length = max(1, math.ceil(self.delta * self.period - 1e-9))
        free = self.period - length
        order = np.arange(who.m)
        if who.realised is not None:
            order = np.argsort(who.realised @ np.arange(who.realised.shape[1]), kind="stable")
        group = np.empty(who.m, dtype=np.int64)
        group[order] = np.arange(who.m) * self.groups // who.m
        first = group * free // max(1, self.groups - 1)

        def sample(t: int) -> Bools:
            window, place = divmod(t, self.period)
            begins = free - first if window % 2 else first
            return np.asarray((begins <= place) & (place < begins + length))

        return Defined(who.m, None, lambda t: sample(t).astype(np.float64), sample)
