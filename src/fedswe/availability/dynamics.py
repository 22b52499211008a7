"""Models that every client follows in the same way: always, stationary, staircase, sine, interleaved sine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedswe.availability.model import Availability, Population, Probabilistic
from fedswe.availability.schedule import Bernoulli, Floats, Schedule
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

    period: int = 20  # rounds of one period
    low: float = 0.4  # factor of p_i in the second half of a period

    title: ClassVar[str] = "p_i^t = p_i in the first half of each period, low * p_i in the second"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_period(self.period)
        require(0 <= self.low <= 1, f"low must be within [0, 1], not {self.low:g}")

    def factor(self, t: int, m: int) -> float:
        return 1.0 if 2 * (t % self.period) < self.period else self.low

    def cycle(self) -> int:
        return self.period


@dataclass(frozen=True)
class Sine(Probabilistic):
    """p_i times a sine between 1 - 2 gamma and 1."""

    gamma: float = 0.3  # amplitude of the sine: the factor of p_i moves between 1 - 2 gamma and 1
    period: int = 20  # rounds of one period

    title: ClassVar[str] = "p_i^t = p_i (gamma sin(2 pi t / period) + 1 - gamma)"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_period(self.period)
        require(0 <= self.gamma <= 0.5, f"gamma must be within [0, 0.5], not {self.gamma:g}")

    def factor(self, t: int, m: int) -> float:
        return self.gamma * math.sin(2 * math.pi * t / self.period) + (1 - self.gamma)

    def cycle(self) -> int:
        return self.period


@dataclass(frozen=True)
class InterleavedSine(Sine):
    """The sine, set to zero below a threshold: rarely available clients are absent for part of each period."""

    cutoff: float = 0.1  # probabilities below it become 0

    title: ClassVar[str] = "the sine's p_i^t where it is at least cutoff, else 0"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.cutoff <= 1, f"cutoff must be within [0, 1], not {self.cutoff:g}")

    def probabilities(self, t: int, base: Floats) -> Floats:
        prob = super().probabilities(t, base)
        return np.where(prob >= self.cutoff, prob, 0.0)


def check_period(period: int, least: int = 1) -> None:
    require(period >= least, f"period must be at least {least}, not {period}")
