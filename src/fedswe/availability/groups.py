"""Groups of clients that are available in turns: two alternating groups, and cyclic groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fedswe.availability.dynamics import check_period
from fedswe.availability.model import Probabilistic
from fedswe.availability.schedule import Floats
from fedswe.errors import require


@dataclass(frozen=True)
class Alternating(Probabilistic):
    """The first half of the clients in the first half of each period, the others in the second half."""

    period: int = 100  # P, rounds of one period; the window of each group has P/2 rounds
    inside: Literal["static", "staircase"] = "static"  # p_i in the own window, or p_i and low * p_i in turns
    low: float = 0.4  # factor of p_i on the lower step of the staircase
    stair_period: int = 50  # rounds of one full stair inside the window; the paper gives none, 50 fills its window

    title: ClassVar[str] = "two groups, available in turns of period/2 rounds; p_i^t = p_i f(t) in the own window"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_period(self.period, least=2)
        require(self.period % 2 == 0, f"period must be even (two windows of period/2), not {self.period}")
        require(0 <= self.low <= 1, f"low must be within [0, 1], not {self.low:g}")
        require(
            self.inside == "static" or 2 <= self.stair_period <= self.period - 2,
            f"stair_period must be from 2 to {self.period - 2} for a step down in windows of {self.period // 2} "
            f"rounds, not {self.stair_period}",
        )

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

    groups: int = 5  # number of groups
    turn: int = 1  # consecutive rounds of a group; 100 in the periodic availability of gFedAvg's experiments

    title: ClassVar[str] = "p_i^t = p_i when i mod groups = floor(t / turn) mod groups, else 0"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.groups >= 1, f"groups must be at least 1, not {self.groups}")
        require(self.turn >= 1, f"turn must be at least 1 round, not {self.turn}")

    def factor(self, t: int, m: int) -> Floats:
        return np.where(np.arange(m) % self.groups == t // self.turn % self.groups, 1.0, 0.0)

    def cycle(self) -> int:
        return self.groups * self.turn
