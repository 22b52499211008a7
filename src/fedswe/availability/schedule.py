"""Schedules: which clients are available, round by round.

A schedule answers two questions for any round, in any order: ``prob(t)``, the probabilities p_i^t, and
``sample(t)``, the clients that are available. The draws are a random stream of their own, so all algorithms with one
seed see the same clients in the same rounds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from fedswe.core import keys
from fedswe.core.algorithm import Algorithm
from fedswe.errors import require

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]


class Schedule(Protocol):
    m: int
    rounds: int | None  # how many rounds there are; None when any round can be asked for

    def prob(self, t: int) -> Floats:
        """p_i^t for all clients, NaN where it is not known."""

    def sample(self, t: int) -> Bools:
        """The available clients of round t."""


def require_probabilities(schedule: Schedule, algorithm: Algorithm) -> None:
    """Refuse an algorithm that needs the true probabilities where the schedule does not know them."""
    remedy = (
        'availability.prob_file with a mask, or availability.prob="estimate" to use estimates from the recorded rounds'
    )
    unknown = algorithm.needs_probabilities and np.isnan(schedule.prob(0)).any()
    require(not unknown, f"{type(algorithm).__name__} needs the true probabilities: give {remedy}")


_BLOCK = 1 << 15  # clients drawn at once: they fit in the cache, and torch uses one thread for them


def uniform_draws(seed: int, t: int, m: int) -> Floats:
    """The draw of each client in round t, uniform in [0, 1)."""
    draws = np.empty(m)
    for first in range(0, m, _BLOCK):
        block = np.arange(first, min(first + _BLOCK, m))
        draws[first : first + _BLOCK] = keys.uniform(seed, "availability", t, block).numpy()
    return draws


class Bernoulli:
    """Independent draws with probabilities p_i^t."""

    rounds: int | None = None

    def __init__(self, m: int, seed: int, prob: Callable[[int], Floats]) -> None:
        self.m, self.seed, self.prob = m, seed, prob

    def sample(self, t: int) -> Bools:
        return np.asarray(uniform_draws(self.seed, t, self.m) < self.prob(t))


class Defined:
    """A schedule of two functions."""

    def __init__(
        self, m: int, rounds: int | None, prob: Callable[[int], Floats], sample: Callable[[int], Bools]
    ) -> None:
        self.m, self.rounds, self.prob, self.sample = m, rounds, prob, sample


class Sequential(ABC):
    """Draws in which a round depends on the rounds before it; asked for an earlier round, it starts again at 0."""

    rounds: int | None = None

    def __init__(self, m: int, prob: Callable[[int], Floats]) -> None:
        self.m, self.prob = m, prob
        self._next = 0

    @abstractmethod
    def draw(self, t: int) -> Bools:
        """Round t, directly after round t - 1; round 0 after any round."""

    def sample(self, t: int) -> Bools:
        for drawn in range(self._next if t >= self._next else 0, t + 1):
            available = self.draw(drawn)
        self._next = t + 1
        return available


class LegacyBernoulli(Sequential):
    """The released code's stream: numpy's legacy generator, continued from partition and label weights."""

    def __init__(self, m: int, prob: Callable[[int], Floats], rng: np.random.RandomState) -> None:
        super().__init__(m, prob)
        self._rng, self._start = rng, rng.get_state()

    def draw(self, t: int) -> Bools:
        if t == 0:
            self._rng.set_state(self._start)
        return self._rng.binomial(1, self.prob(t)).astype(bool)
