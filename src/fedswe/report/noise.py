"""Which results can be told apart: differences seed by seed, against their spread over seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

import numpy as np

from fedswe.results.table import Interval, quantile

Place = Literal["", "first", "second", "unclear"]
Finals = Mapping[int, float]  # of a name: seed to final score


def difference(of: Finals, other: Finals) -> Interval:
    """The mean of of - other with its 95 % interval: seed by seed if both have the same seeds, and else by Welch's.

    So it is the difference of the two means by which a ranking is ordered.

    The interval is NaN if either has one seed only, or a run that diverged.
    """
    if not all(map(math.isfinite, [*of.values(), *other.values()])):
        return Interval(math.nan, math.nan)  # a run diverged
    if len(of) > 1 and of.keys() == other.keys():
        return Interval.of([of[seed] - other[seed] for seed in of])
    return _unpaired(list(of.values()), list(other.values()))


def _unpaired(a: Sequence[float], b: Sequence[float]) -> Interval:
    mean = float(np.mean(a) - np.mean(b))
    if min(len(a), len(b)) < 2:
        return Interval(mean, math.nan)
    squares = [float(np.var(values, ddof=1)) / len(values) for values in (a, b)]
    if not sum(squares):
        return Interval(mean, 0.0)
    freedom = sum(squares) ** 2 / sum(s**2 / (len(v) - 1) for s, v in zip(squares, (a, b), strict=True))
    return Interval(mean, quantile(freedom) * math.sqrt(sum(squares)))


def on_common_seeds(finals: Mapping[str, Finals]) -> dict[str, Finals]:
    """Only the seeds that all names with several seeds have, if these are at least two; else all seeds.

    A name of which a run diverged is in no ranking: it keeps its seeds, and the others need not have them.
    """
    several = {name for name, of in finals.items() if len(of) > 1 and all(map(math.isfinite, of.values()))}
    common = set.intersection(*(set(finals[name]) for name in several)) if several else set()
    if len(common) < 2:
        return dict(finals)
    return {
        name: {seed: value for seed, value in of.items() if seed in common or name not in several}
        for name, of in finals.items()
    }


def differs(of: Finals, other: Finals) -> bool | None:
    """Whether 0 is outside the interval of the difference; None if there is no interval."""
    found = difference(of, other)
    return None if math.isnan(found.half) else abs(found.mean) > found.half


@dataclass(frozen=True)
class Ranking:
    """Who is best, who is level with it within the noise, and who is not; in each tuple the best first."""

    best: str
    level: tuple[str, ...]  # cannot be told from the best, and nobody before them can
    unclear: tuple[
        str, ...
    ] = ()  # cannot be told from the best either, but are behind one that can: their seeds differ
    second: tuple[str, ...] = ()  # of those that can be told from the best, the best and who is level with that
    lower: tuple[str, ...] = ()  # all others

    def place(self, name: str) -> Place:
        if name == self.best or name in self.level:
            return "first"
        return "second" if name in self.second else "unclear" if name in self.unclear else ""

    @property
    def behind(self) -> tuple[str, ...]:
        """All that can be told from the best."""
        return self.second + self.lower


def ranking(finals: Mapping[str, Finals], more_is_better: bool) -> Ranking | None:
    """Of the names whose scores are all finite; None if there are none."""
    means = {name: float(np.mean(list(of.values()))) for name, of in finals.items() if of}
    order = sorted((n for n in means if math.isfinite(means[n])), key=means.__getitem__, reverse=more_is_better)
    if not order:
        return None
    best, *others = order
    found = {name: differs(finals[name], finals[best]) for name in others}
    told = [name for name in others if found[name]]
    level = _level(finals, best, others)
    unclear = tuple(name for name in others if not found[name] and name not in level)
    second = (told[0], *_level(finals, told[0], told[1:])) if told else ()
    lower = tuple(name for name in told if name not in second)
    return Ranking(best, level, unclear, second, lower)


def _level(finals: Mapping[str, Finals], first: str, others: Sequence[str]) -> tuple[str, ...]:
    """Those that cannot be told from the first, up to one that can."""
    return tuple(takewhile(lambda name: differs(finals[name], finals[first]) is False, others))
