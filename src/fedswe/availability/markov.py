"""Markov on/off clients: availability that persists from round to round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedswe.availability.model import Dependence, Population, Probabilistic
from fedswe.availability.schedule import Bools, Floats, Schedule, Sequential, uniform_draws
from fedswe.errors import require


@dataclass(frozen=True)
class Markov(Probabilistic):
    """Each client turns on with probability `on` and off with on (1/p_i - 1): it is available in a share p_i of rounds.

    Where the off-probability would exceed 1 both are scaled down. ``prob`` is the stationary p_i, not the probability
    given the state of the round before.
    """

    on: float = 0.05  # probability that an unavailable client becomes available in the next round

    title: ClassVar[str] = "two-state chains with stationary probability p_i"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.on <= 1, f"on must be in (0, 1], not {self.on:g}")
        require(self.stream == "keyed", 'the markov model has no legacy stream: use stream = "keyed"')

    def factor(self, t: int, m: int) -> float:
        return 1.0

    def cycle(self) -> int:
        return 1

    def dependence(self) -> Dependence:
        return "rounds"

    def schedule(self, who: Population, seed: int) -> Schedule:
        return Chains(self.base(who, seed), seed, self.on)


class Chains(Sequential):
    """One chain per client, started in its stationary distribution."""

    def __init__(self, base: Floats, seed: int, on: float) -> None:
        super().__init__(len(base), lambda t: base)
        # on (1/p - 1) without dividing by p: where it exceeds 1 (p = 0 included) both are scaled down by it.
        off = on * (1.0 - base)
        scale = np.maximum(off, base)
        self._turn_on, self._turn_off = on * base / scale, off / scale
        self._base, self._seed = base, seed
        self._state: Bools = np.zeros(len(base), dtype=bool)

    def restart(self) -> None:
        self._state = np.zeros(self.m, dtype=bool)

    def draw(self, t: int) -> Bools:
        draws = uniform_draws(self._seed, t, self.m)
        stay_or_turn = np.where(self._state, 1.0 - self._turn_off, self._turn_on)
        self._state = draws < (self._base if t == 0 else stay_or_turn)
        return self._state.copy()
