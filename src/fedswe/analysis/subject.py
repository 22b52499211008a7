"""What a report is about: some clients, and what is known of when they are there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from fedswe.availability import Alternating, Always, Availability, Cyclic, Markov, Mask, Sine, Staircase, Stationary
from fedswe.availability.markov import Chains
from fedswe.availability.mask import read_table
from fedswe.availability.model import Population, Probabilistic
from fedswe.availability.schedule import Bools, Floats, Schedule
from fedswe.errors import FedsweError, require
from fedswe.experiment.experiment import Experiment, populate
from fedswe.tasks.problem import Problem
from fedswe.theory.assumption import delta_profile

# probabilities: independent coins with known p_i^t, the setting of Assumption 1
# trace: one record of who was there, and nothing else
# chains: known p_i, but a round depends on the one before
Knowledge = Literal["probabilities", "trace", "chains"]

_SIMULATED_CELLS = 2e7  # rounds times clients times copies


@dataclass(frozen=True, eq=False)
class Subject:
    """The clients of an experiment over some rounds."""

    name: str  # of the availability model
    experiment: Experiment
    schedule: Schedule
    problem: Problem | None  # None when no task was named and the availability fixes the number of clients
    horizon: int

    @property
    def m(self) -> int:
        return self.schedule.m

    @cached_property
    def knows(self) -> Knowledge:
        if isinstance(self.experiment.availability, Markov):
            return "chains"
        return "trace" if np.isnan(self.schedule.prob(0)).any() else "probabilities"

    @cached_property
    def cycle(self) -> int | None:
        """The rounds after which the probabilities repeat, if that is known."""
        availability = self.experiment.availability
        if isinstance(availability, Always | Stationary | Markov):
            return 1
        if isinstance(availability, Staircase | Sine | Alternating):
            return availability.period
        return availability.groups if isinstance(availability, Cyclic) else None

    @cached_property
    def prob(self) -> Floats:
        """p_i^t [horizon, m]; for chains the share of time each client is there."""
        if self.cycle is None:
            return np.stack([self.schedule.prob(t) for t in range(self.horizon)])
        # One cycle, repeated: evaluated at t + period a sine differs in its last digit.
        once = np.stack([self.schedule.prob(t) for t in range(self.cycle)])
        return np.resize(once, (self.horizon, self.m))

    @cached_property
    def trace(self) -> Bools:
        """Who is there in the rounds of a run [horizon, m]."""
        return np.stack([self.schedule.sample(t) for t in range(self.horizon)])

    def window(self, asked: int | None) -> int:
        """The window P to judge: the one asked for, the cycle, or the shortest in which everybody is seen."""
        if asked is not None:
            require(
                1 <= asked <= self.horizon,
                f"--period {asked} must be between 1 and the {self.horizon} rounds looked at (--horizon)",
            )
            return asked
        if isinstance(self.experiment.availability, Markov):
            # One round says nothing of how long clients stay away; this is how long the off ones do, on average.
            return min(self.horizon, math.ceil(1 / self.experiment.availability.on))
        if self.cycle is not None:
            require(
                self.cycle <= self.horizon,
                f"{self.horizon} rounds are shorter than the period {self.cycle}: raise --horizon or name a --period",
            )
            return self.cycle
        profile = delta_profile(self.trace if self.knows == "trace" else self.prob)
        everybody = np.flatnonzero(profile > 0)
        if not everybody.size:
            never = int((self.trace if self.knows == "trace" else self.prob).any(axis=0).argmin())
            raise FedsweError(
                f"client {never} is absent in all {self.horizon} rounds, so no window holds everybody: "
                "leave it out, or name a --period"
            )
        return int(everybody[0]) + 1

    def copies(self, rounds: int, wanted: int) -> Bools:
        """Independent copies of the chains [rounds, copies, m], as many as wanted and reasonable."""
        availability = self.experiment.availability
        assert isinstance(availability, Markov)
        number = int(max(4, min(wanted, _SIMULATED_CELLS // (rounds * self.m))))
        # Clients are independent: R times as many of them are R copies.
        crowd = Chains(np.tile(self.schedule.prob(0), number), self.experiment.seed, availability.on)
        return np.stack([crowd.sample(t) for t in range(rounds)]).reshape(rounds, number, self.m)

    def values(self) -> dict[str, Any]:
        return {
            "availability": self.name,
            "clients": self.m,
            "rounds": self.horizon,
            "cycle": self.cycle,
            "basis": self.knows,
            "mean_available": self.mean_available,
        }

    @property
    def mean_available(self) -> float:
        table = self.trace if self.knows == "trace" else self.prob
        return float(table.sum(axis=1).mean())

    def notes(self) -> list[str]:
        cycle = f", period {self.cycle}" if self.cycle is not None and self.cycle > 1 else ""
        head = f"{self.name}: {self.m} clients, {self.horizon} rounds{cycle}"
        head += f", {self.mean_available:.1f} available on average"
        if self.knows == "trace":
            return [head, "one record of 0 and 1: numbers with an interval are estimates, the others facts about it"]
        if self.knows == "chains":
            return [
                head,
                "markov rounds are not independent, as Assumption 1 asks: p_i is the share of time a client is there, "
                "and what needs more than that is simulated",
            ]
        return [head]


def subject(experiment: Experiment, name: str, horizon: int | None, task_named: bool) -> Subject:
    """Clients as a run would have them. Without a named task, an availability that lists clients fixes their number."""
    alone = None if task_named else _clients_listed(experiment.availability)
    problem: Problem | None = None
    if alone is None:
        problem, schedule = populate(experiment)
    else:
        schedule = experiment.availability.schedule(Population(alone), experiment.seed)
    rounds = experiment.rounds if schedule.rounds is None else schedule.rounds
    if horizon is not None:
        require(horizon >= 1, f"--horizon {horizon} must be at least 1 round")
        require(
            schedule.rounds is None or horizon <= schedule.rounds,
            f"--horizon {horizon} is longer than the {schedule.rounds} rounds of the file",
        )
        rounds = horizon
    return Subject(name, experiment, schedule, problem, rounds)


def _clients_listed(availability: Availability) -> int | None:
    if isinstance(availability, Mask):
        return int(read_table(availability.file, "availability.file").shape[1])
    if isinstance(availability, Probabilistic) and isinstance(availability.p, list):
        return len(availability.p) if availability.stream == "keyed" else None  # legacy draws follow the partition's
    return None
