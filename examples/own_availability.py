"""An availability model of your own: clients that are rarely available at the weekend.

fedswe run availability.name=./own_availability.py:Week availability.weekend=0.2
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedswe.availability.model import Probabilistic
from fedswe.errors import require


@dataclass(frozen=True)
class Week(Probabilistic):
    """p_i on five rounds (days) of seven, weekend * p_i on the other two; `p` is inherited."""

    weekend: float = 0.1  # factor of p_i at the weekend

    title: ClassVar[str] = "p_i^t = p_i from Monday to Friday, weekend * p_i else"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.weekend <= 1, f"weekend must be within [0, 1], not {self.weekend:g}")

    def factor(self, t: int, m: int) -> float:
        return 1.0 if t % 7 < 5 else self.weekend
