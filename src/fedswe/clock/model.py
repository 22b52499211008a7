"""A clock says when rounds are opened and closed, and so which of the selected clients report."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedswe.availability.model import Availability
from fedswe.availability.schedule import Bools, Floats, Integers, Schedule
from fedswe.core.value import Value
from fedswe.errors import require


@dataclass(frozen=True)
class Work:
    """What every client does in a round."""

    steps: int | Integers  # of local training; with local.epochs of each client
    down: int  # bytes to a client before its work
    up: int  # bytes of its report
    reply: int  # bytes of the server's answer to its last report, which come with its next job


class Timeline(ABC):
    """The rounds of one run, one after the other."""

    over: str = ""  # why no further round can be opened
    shortened: str = ""  # the same, if the user did not ask for the end

    @abstractmethod
    def available(self, t: int) -> Bools:
        """The clients that are available when round t is opened."""

    @abstractmethod
    def prob(self, t: int) -> Floats:
        """p_i^t for all clients, NaN where it is not known."""

    @abstractmethod
    def reporting(self, t: int, selected: Integers, replied: Bools) -> Integers:
        """Those of the selected clients whose reports arrive before round t is closed.

        `replied` says of every client whether the server has a reply for it.
        """

    def advance(self) -> None:
        """Go on to the next round."""
        return

    def columns(self) -> dict[str, float]:
        """Columns of the history: times, clients and bytes since the beginning of the run."""
        return {}

    def state(self) -> Floats:
        """All that the next round depends on, besides t."""
        return np.zeros(0)

    def load(self, state: Floats, t: int) -> None:
        """Continue before round t from what ``state`` gave there."""
        return


@dataclass(frozen=True)
class Clock(Value, ABC):
    """A named kind of clock with its parameters; ``timeline`` applies it to the clients of a run."""

    title: ClassVar[str]
    may_end_early: ClassVar[bool] = False  # a run may have fewer rounds than the experiment says

    def rounds(self, availability: Availability) -> int | None:
        """How many rounds a run has by default; None: the clock does not know."""
        return None

    def check(self, schedule: Schedule, rounds: int) -> None:
        """Refuse, in one line, a run of so many rounds for which the availability is too short."""
        return

    @abstractmethod
    def timeline(self, schedule: Schedule, work: Callable[[], Work], seed: int) -> Timeline:
        """The rounds of one run; `work` counts what clients do, if it is asked for."""


@dataclass(frozen=True)
class Rounds(Clock):
    """Rounds are counted and have no length: every selected client reports, and a history has no simulated time."""

    title: ClassVar[str] = "rounds without time: every selected client reports"

    def rounds(self, availability: Availability) -> int | None:
        return availability.rounds()

    def check(self, schedule: Schedule, rounds: int) -> None:
        few = f"the availability has {schedule.rounds} rounds but rounds = {rounds}"
        remedy = "lower rounds, or give more rounds (a log of intervals can be repeated: availability.wrap=true)"
        require(schedule.rounds is None or schedule.rounds >= rounds, f"{few}: {remedy}")

    def timeline(self, schedule: Schedule, work: Callable[[], Work], seed: int) -> Timeline:
        return Untimed(schedule)


class Untimed(Timeline):
    """Round t of the run is round t of the schedule."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def available(self, t: int) -> Bools:
        return self._schedule.sample(t)

    def prob(self, t: int) -> Floats:
        return self._schedule.prob(t)

    def reporting(self, t: int, selected: Integers, replied: Bools) -> Integers:
        return selected
