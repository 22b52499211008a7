"""When rounds of equal length begin and end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedswe.availability.schedule import Floats


@dataclass(frozen=True)
class RoundTimes:
    """Round t begins at origin + t * length, in floating-point arithmetic as it is written here."""

    origin: float
    length: float

    def begin(self, t: npt.NDArray[Any]) -> Floats:
        return np.asarray(self.origin + t * self.length)

    def first_from(self, time: Floats) -> npt.NDArray[Any]:
        """The first round that begins at this time or later."""
        t = np.ceil((time - self.origin) / self.length)
        t -= self.begin(t - 1) >= time  # the quotient is rounded
        t += self.begin(t) < time
        return t

    def first_middle_from(self, time: Floats) -> npt.NDArray[Any]:
        """The first round whose middle is at this time or later."""
        return RoundTimes(self.origin + self.length / 2, self.length).first_from(time)

    def ended_by(self, time: Floats) -> npt.NDArray[Any]:
        """The number of rounds that have ended at this time."""
        t = self.first_from(time)
        return t - (self.begin(t) > time)
