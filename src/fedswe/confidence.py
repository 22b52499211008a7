"""Confidence intervals of means over seeds, by Student's t."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

CONFIDENCE = 0.95  # on both sides together


@lru_cache
def quantile(freedom: float) -> float:
    """How many standard errors half an interval has, by the degrees of freedom of the error; NaN if there are none."""
    from scipy.stats import t  # slow to import

    return float(t.ppf((1 + CONFIDENCE) / 2, freedom)) if freedom else math.nan


@dataclass(frozen=True)
class Interval:
    """A mean over seeds, and half the width of its confidence interval; NaN with one seed."""

    mean: float
    half: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval:
        n, mean = len(values), float(np.mean(values))
        if n < 2:
            return cls(mean, math.nan)
        return cls(mean, float(quantile(n - 1) * np.std(values, ddof=1) / math.sqrt(n)))
