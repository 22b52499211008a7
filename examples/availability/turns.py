"""Clients in turns: FedAU's periods, DPFL's round robin and steps, and Wang and Ji's regularised participation.

fedswe run availability.name=./examples/availability/turns.py:RoundRobin availability.interval=5
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from fedswe.availability.model import Availability, Dependence, Population, Probabilistic
from fedswe.availability.schedule import Bools, Defined, Floats, Schedule, uniform_draws
from fedswe.core import keys
from fedswe.errors import require


@dataclass(frozen=True)
class Periodic(Probabilistic):
    """Each client in turns: available for max(1, round(period p_i)) rounds, then not for the rest of the period.

    The first turn begins in a round drawn uniformly from those in which a client is not available, so that no turn is
    under way at round 0. At least one round of each period is without the client, which makes it one round longer for
    p_i = 1. p_i^t is the probability over the draw of the first turn. FedAU's cyclic participation.
    """

    period: int = 100  # rounds from the beginning of a turn to that of the next

    title: ClassVar[str] = "turns of period * p_i rounds, from a random first round on"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.period >= 1, f"period must be at least 1, not {self.period}")
        require(self.stream == "keyed", 'the periodic model has no legacy stream: use stream = "keyed"')

    def factor(self, t: int, m: int) -> float:
        return 1.0

    def dependence(self) -> Dependence:
        return "rounds"

    def schedule(self, who: Population, seed: int) -> Schedule:
        base = self.base(who, seed)
        on = np.maximum(1, np.round(self.period * base)).astype(np.int64)
        off = np.maximum(1, self.period - on)
        draws = keys.uniform(seed, "first turns", np.arange(who.m)).numpy()
        first = np.floor(draws * off).astype(np.int64)
        never = base == 0

        def prob(t: int) -> Floats:
            place = t % (on + off)
            offsets = np.minimum(place, off - 1) - np.maximum(place - on + 1, 0) + 1  # that put the place into a turn
            return np.where(never, 0.0, np.maximum(offsets, 0) / off)

        def sample(t: int) -> Bools:
            return np.asarray((t >= first) & ((t - first) % (on + off) < on) & ~never)

        return Defined(who.m, None, prob, sample)


@dataclass(frozen=True)
class RoundRobin(Availability):
    """Clients k, k + 1, ..., k + overlap - 1 (mod m) are available for `interval` rounds, for k = 0, 1, 2, ...

    Nobody is available before round `start`. DPFL's round robin, where start is 49 by default. p_i^t is 0 or 1.
    """

    interval: int = 10  # rounds until the next client's turn
    overlap: int = 1  # clients that are available at the same time
    start: int = 0  # round of the first turn

    title: ClassVar[str] = "clients in turns, `overlap` of them for `interval` rounds"

    def __post_init__(self) -> None:
        for name in ("interval", "overlap"):
            require(getattr(self, name) >= 1, f"{name} must be at least 1, not {getattr(self, name)}")
        require(self.start >= 0, f"start must be 0 or more, not {self.start}")

    def schedule(self, who: Population, seed: int) -> Schedule:
        def sample(t: int) -> Bools:
            turn = (t - self.start) // self.interval
            return np.asarray(((np.arange(who.m) - turn) % who.m < self.overlap) & (t >= self.start))

        return Defined(who.m, None, lambda t: sample(t).astype(np.float64), sample)


@dataclass(frozen=True)
class Incremental(Availability):
    """One client more, or one less, every `interval` rounds; in between the same clients are always available.

    arrival: the first `initial` clients are there, and from round `start` on another one arrives every `interval`
    rounds. departure: all are there, and from round `start` on the last one leaves every `interval` rounds, until
    `initial` are left. DPFL's incremental arrival and departure. p_i^t is 0 or 1.
    """

    change: Literal["arrival", "departure"] = "arrival"  # whether clients come or go
    start: int = 50  # round of the first change
    initial: int = 5  # clients that are always there
    interval: int = 10  # rounds between two changes

    title: ClassVar[str] = "one client more, or one less, every `interval` rounds"

    def __post_init__(self) -> None:
        require(self.start >= 0, f"start must be 0 or more, not {self.start}")
        for name in ("initial", "interval"):
            require(getattr(self, name) >= 1, f"{name} must be at least 1, not {getattr(self, name)}")

    def schedule(self, who: Population, seed: int) -> Schedule:
        client = np.arange(who.m)
        turn = client - self.initial if self.change == "arrival" else who.m - 1 - client
        changes = self.start + turn * self.interval

        def sample(t: int) -> Bools:
            changed = t >= changes
            return np.asarray((client < self.initial) | (changed if self.change == "arrival" else ~changed))

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
        require(self.period >= 1, f"period must be at least 1, not {self.period}")

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
