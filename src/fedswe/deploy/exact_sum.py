"""Sums of models that do not depend on the order in which models were added and taken away."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedswe.core.records import Vector

_SPLIT = 2.0**27 + 1  # cuts the 53 binary digits of a float64 into two numbers of 26


@dataclass(frozen=True)
class ExactSum:
    """A sum in two float64 numbers per parameter, 106 binary digits.

    It is exact, and adding a model and taking it away leaves no trace, while all models that a sum ever held lie within
    these digits: for thousands of clients, a parameter of float32 would have to vary by a factor of 2^70 to be rounded,
    one of float64 by 2^40, and then at the 106th digit.
    """

    high: Vector  # the sum, rounded to float64
    low: Vector  # the rest

    @classmethod
    def zero(cls, like: Vector) -> ExactSum:
        nothing = torch.zeros_like(like, dtype=torch.float64)
        return cls(nothing, nothing)

    def plus(self, times: int, x: Vector) -> ExactSum:
        """With a model added several times, or taken away if `times` is negative."""
        if x.dtype == torch.float64:
            # The products of halves with a count below 2^26 are exact.
            scaled = _SPLIT * x
            upper = scaled - (scaled - x)
            return self._plus(times * upper)._plus(times * (x - upper))
        return self._plus(times * x.double())

    def _plus(self, value: Vector) -> ExactSum:
        total, rest = _two_sum(self.high, value)
        rest = rest + self.low
        high = total + rest
        return ExactSum(high, rest - (high - total))

    def over(self, count: int) -> Vector:
        """Divided by a number, in float64."""
        return (self.high + self.low) / count


def _two_sum(a: Vector, b: Vector) -> tuple[Vector, Vector]:
    """a + b rounded, and what was lost by rounding (Knuth)."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)
