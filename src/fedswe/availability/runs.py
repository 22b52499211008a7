"""Runs of rounds: for each client the stretches of rounds in which it is available (or observed).

A month of ten-minute rounds of 100,000 devices has 432 million cells and a few million runs, so statistics are computed
from the runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fedswe.availability.schedule import Bools, Floats

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Runs:
    """Disjoint runs [first, after) that do not touch, in order of client and round."""

    m: int
    rounds: int
    client: Integers
    first: Integers
    after: Integers

    @classmethod
    def whole(cls, m: int, rounds: int) -> Runs:
        """Every client in every round."""
        return cls(m, rounds, np.arange(m), np.zeros(m, dtype=np.int64), np.full(m, rounds))

    @classmethod
    def drawn(cls, sample: Callable[[int], Bools], m: int, rounds: int) -> Runs:
        """Of rows that are asked for one after the other."""
        before = np.zeros(m, dtype=bool)
        begun: list[tuple[Integers, int]] = []
        ended: list[tuple[Integers, int]] = []
        for t in range(rounds + 1):
            row = sample(t) if t < rounds else np.zeros(m, dtype=bool)
            changed = np.flatnonzero(row != before)
            begun.append((changed[row[changed]], t))
            ended.append((changed[~row[changed]], t))
            before = row.copy()
        (client, first), (other, after) = (_ordered(edges) for edges in (begun, ended))
        assert np.array_equal(client, other)
        return cls(m, rounds, client, first, after)

    def until(self, rounds: int) -> Runs:
        """The same in the first rounds only."""
        kept = self.first < rounds
        return Runs(self.m, rounds, self.client[kept], self.first[kept], np.minimum(self.after[kept], rounds))

    @property
    def length(self) -> Integers:
        return self.after - self.first

    @cached_property
    def count(self) -> Integers:
        """The rounds of each client."""
        return np.bincount(self.client, self.length, minlength=self.m).astype(np.int64)

    @cached_property
    def per_round(self) -> Integers:
        """The clients of each round."""
        edges = np.bincount(self.first, minlength=self.rounds + 1) - np.bincount(self.after, minlength=self.rounds + 1)
        return np.cumsum(edges)[: self.rounds]

    @cached_property
    def _line(self) -> tuple[Integers, Integers, Integers]:
        """Clients one after the other on a line: where each run begins; before all runs and after each of them, where
        the last one ends, and the places in runs so far."""
        home = self.client * (self.rounds + 1)
        total = np.concatenate([[0], np.cumsum(self.length)])
        return home + self.first, np.concatenate([[0], home + self.after]), total

    def before(self, client: Integers, t: Integers) -> Integers:
        """How many rounds of the runs of all clients up to this one, in order, come before its round t."""
        begin, end, total = self._line
        place = client * (self.rounds + 1) + t
        last = np.searchsorted(begin, place, side="right")  # runs that begin at or before the place
        inside = end[last] - place
        return np.asarray(total[last] - np.maximum(inside, 0))

    def within(self, client: Integers, first: Integers, after: Integers) -> Integers:
        """How many of a client's rounds `first` to `after` - 1 are in its runs."""
        first, after = np.clip(first, 0, self.rounds), np.clip(after, 0, self.rounds)
        return np.where(after > first, self.before(client, after) - self.before(client, first), 0)

    def overlap(self, other: Runs, lag: int) -> Integers:
        """For each client, the rounds t in its runs for which t + lag is in the other's."""
        found = other.within(self.client, self.first + lag, self.after + lag)
        return np.bincount(self.client, found, minlength=self.m).astype(np.int64)

    def sums(self, of_round: Floats) -> Floats:
        """For each client, the sum over its rounds of a number that belongs to the round."""
        total = np.concatenate([[0.0], np.cumsum(of_round)])
        return np.bincount(self.client, total[self.after] - total[self.first], minlength=self.m).astype(np.float64)


def _ordered(edges: list[tuple[Integers, int]]) -> tuple[Integers, Integers]:
    """Clients and rounds of edges that were found round by round, in order of client and round."""
    client = np.concatenate([who for who, _ in edges])
    t = np.repeat(np.array([t for _, t in edges]), [len(who) for who, _ in edges])
    order = np.argsort(client, kind="stable")
    return client[order], t[order]
