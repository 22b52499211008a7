"""Schedules that keep a guarantee on every window of rounds: the worst of them, and the most regular ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fedswe.availability.dynamics import check_period
from fedswe.availability.model import Availability, Dependence, Population
from fedswe.availability.schedule import Bools, Defined, Floats, Schedule, uniform_draws
from fedswe.core import keys
from fedswe.errors import require


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

    delta: float = 0.1  # share of the rounds of every window in which each client is available
    period: int = 100  # rounds of a window
    groups: int = 2  # groups of clients with similar labels, each available at another time

    title: ClassVar[str] = "deterministic; every client in a share delta of each window, at the worst time"

    def __post_init__(self) -> None:
        check_period(self.period)
        require(0 < self.delta <= 1, f"delta must be in (0, 1], not {self.delta:g}")
        require(self.groups >= 1, f"groups must be at least 1, not {self.groups}")

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


@dataclass(frozen=True)
class Regularised(Availability):
    """Every client is available in exactly one round of every window of `period` rounds.

    In each window the clients are shuffled and dealt to its rounds, m / period to each, as evenly as whole numbers
    allow. Regularised participation of Wang and Ji, A Unified Analysis of Federated Learning with Arbitrary Client
    Participation, NeurIPS 2022. p_i^t is the share of the clients that round t is dealt.
    """

    period: int = 10  # P, rounds of a window

    title: ClassVar[str] = "every client in exactly one round of each window, drawn at random"

    def __post_init__(self) -> None:
        check_period(self.period)

    def dependence(self) -> Dependence:
        return "clients"

    def cycle(self) -> int:
        return self.period

    def schedule(self, who: Population, seed: int) -> Schedule:
        dealt = np.arange(who.m) * self.period // who.m  # the round of the window for each place in the shuffled order
        share = np.bincount(dealt, minlength=self.period) / who.m
        shuffling = keys.stream_key(seed, "regularised")
        last: list[tuple[int, npt.NDArray[np.int64]]] = []

        def prob(t: int) -> Floats:
            return np.full(who.m, share[t % self.period])

        def sample(t: int) -> Bools:
            window, place = divmod(t, self.period)
            if not last or last[0][0] != window:
                round_of = np.empty(who.m, dtype=np.int64)
                round_of[np.argsort(uniform_draws(shuffling, window, who.m), kind="stable")] = dealt
                last[:] = [(window, round_of)]
            return np.asarray(last[0][1] == place)

        return Defined(who.m, None, prob, sample)
