"""Which results can be told apart: differences seed by seed, against their spread over seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedswe.gym.standings import Interval

Finals = Mapping[int, float]  # of a name: seed to final score


def difference(of: Finals, other: Finals) -> Interval | None:
    """The mean of of - other over the seeds that both have, with its 95 % interval; None without a common seed."""
    common = [seed for seed in of if seed in other]
    return Interval.of([of[seed] - other[seed] for seed in common]) if common else None


def differs(of: Finals, other: Finals) -> bool:
    """Whether 0 is outside the interval of the difference; one seed tells nothing."""
    found = difference(of, other)
    return found is not None and math.isfinite(found.half) and abs(found.mean) > found.half


@dataclass(frozen=True)
class Ranking:
    """Names within the noise of the best, and of those that are not, names within the noise of their best."""

    best: str
    level: tuple[str, ...]  # with the best; the highest first
    second: str = ""
    second_level: tuple[str, ...] = ()
    lower: tuple[str, ...] = ()

    def place(self, name: str) -> int:
        """1, 2 or 0."""
        return 1 if name in (self.best, *self.level) else 2 if name in (self.second, *self.second_level) else 0


def ranking(finals: Mapping[str, Finals], more_is_better: bool) -> Ranking | None:
    """Of the names whose scores are all finite; None if there are none."""
    means = {name: float(np.mean(list(of.values()))) for name, of in finals.items() if of}
    order = sorted((n for n in means if math.isfinite(means[n])), key=means.__getitem__, reverse=more_is_better)
    if not order:
        return None
    best, *others = order
    level = tuple(name for name in others if not differs(finals[name], finals[best]))
    rest = [name for name in others if name not in level]
    if not rest:
        return Ranking(best, level)
    second, *others = rest
    same = tuple(name for name in others if not differs(finals[name], finals[second]))
    return Ranking(best, level, second, same, tuple(name for name in others if name not in same))
