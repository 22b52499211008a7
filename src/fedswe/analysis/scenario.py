"""What an analysis is about: the clients of an experiment, and what is known about their availability."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from fedswe.availability import Markov
from fedswe.availability.markov import Chains
from fedswe.availability.model import Population
from fedswe.availability.schedule import Bools, Floats, Schedule
from fedswe.errors import FedsweError, require
from fedswe.experiment.experiment import Experiment, populate
from fedswe.tasks.problem import Problem
from fedswe.theory.assumption import delta_profile

# probabilities: independent rounds with known p_i^t, the setting of Assumption 1
# trace: one record of which clients were available, and nothing else; also one draw of a model with dependent rounds
# chains: known p_i, but a round depends on the one before
Known = Literal["probabilities", "trace", "chains"]

_SIMULATED_CELLS = 2e7  # rounds times clients times copies


@dataclass(frozen=True, eq=False)
class Scenario:
    """The clients of an experiment and their availability in the first `horizon` rounds."""

    name: str  # of the availability model
    experiment: Experiment
    schedule: Schedule
    problem: Problem | None  # None when no task was named and the availability fixes the number of clients
    horizon: int

    @property
    def m(self) -> int:
        return self.schedule.m

    @cached_property
    def known(self) -> Known:
        if isinstance(self.experiment.availability, Markov):
            return "chains"
        dependent = self.experiment.availability.dependence() != "none"
        return "trace" if dependent or np.isnan(self.schedule.prob(0)).any() else "probabilities"

    @property
    def cycle(self) -> int | None:
        """The number of rounds after which the probabilities repeat, if it is known."""
        return None if self.known == "trace" else self.experiment.availability.cycle()

    @cached_property
    def prob(self) -> Floats:
        """p_i^t [horizon, m]; for chains the share of rounds in which each client is available."""
        # One cycle, repeated: evaluated at t + period a sine differs in its last digit.
        once = np.stack([self.schedule.prob(t) for t in range(self.cycle or self.horizon)])
        return np.resize(once, (self.horizon, self.m))

    @cached_property
    def trace(self) -> Bools:
        """The available clients of a run, round by round [horizon, m]."""
        return np.stack([self.schedule.sample(t) for t in range(self.horizon)])

    @property
    def table(self) -> Floats:
        """The probabilities, or where only a trace is known, the trace as 0 and 1 [horizon, m]."""
        return self.trace.astype(np.float64) if self.known == "trace" else self.prob

    def window(self, asked: int | None) -> int:
        """The window P: the one asked for, the cycle, or the shortest in which every client is available."""
        if asked is not None:
            require(
                1 <= asked <= self.horizon,
                f"--period {asked} must be between 1 and the {self.horizon} rounds analysed (--horizon)",
            )
            return asked
        if isinstance(self.experiment.availability, Markov):
            # A window of one round does not show how long clients are unavailable; this is their mean absence.
            return min(self.horizon, math.ceil(1 / self.experiment.availability.on))
        if self.cycle is not None:
            require(
                self.cycle <= self.horizon,
                f"{self.horizon} rounds are shorter than the period {self.cycle}: raise --horizon or give a --period",
            )
            return self.cycle
        complete = np.flatnonzero(delta_profile(self.table) > 0)
        if not complete.size:
            never = int(self.table.any(axis=0).argmin())
            raise FedsweError(
                f"client {never} is absent in all {self.horizon} rounds, so no window contains every client: "
                "leave it out, or give a --period"
            )
        return int(complete[0]) + 1

    def copies(self, rounds: int, wanted: int) -> Bools:
        """Independent copies of the chains [rounds, copies, m]; fewer than `wanted` if they would be too large."""
        availability = self.experiment.availability
        assert isinstance(availability, Markov)
        number = int(max(4, min(wanted, _SIMULATED_CELLS // (rounds * self.m))))
        # Clients are independent: R times as many clients are R copies.
        chains = Chains(np.tile(self.schedule.prob(0), number), self.experiment.seed, availability.on)
        return np.stack([chains.sample(t) for t in range(rounds)]).reshape(rounds, number, self.m)

    def values(self) -> dict[str, Any]:
        return {
            "availability": self.name,
            "clients": self.m,
            "rounds": self.horizon,
            "cycle": self.cycle,
            "basis": self.known,
            "mean_available": self.mean_available,
        }

    @property
    def mean_available(self) -> float:
        return float(self.table.sum(axis=1).mean())

    def notes(self) -> list[str]:
        period = f", period {self.cycle}" if self.cycle is not None and self.cycle > 1 else ""
        head = f"{self.name}: {self.m} clients, {self.horizon} rounds{period}"
        head += f", {self.mean_available:.1f} available on average"
        if self.known == "trace":
            return [head, "one trace of 0 and 1: numbers with an interval are estimates, the others describe the trace"]
        if self.known == "chains":
            return [
                head,
                "markov rounds are not independent, as Assumption 1 requires: p_i is the share of rounds a client is "
                "available; what needs more than p_i is simulated",
            ]
        return [head]


def scenario(experiment: Experiment, name: str, horizon: int | None, task_named: bool) -> Scenario:
    """Clients as a run would have them. Without a named task, an availability that lists clients fixes their number."""
    clients = None if task_named else experiment.availability.clients()
    problem: Problem | None = None
    if clients is None:
        problem, schedule = populate(experiment)
    else:
        schedule = experiment.availability.schedule(Population(clients), experiment.seed)
    rounds = experiment.rounds if schedule.rounds is None else schedule.rounds
    if horizon is not None:
        require(horizon >= 1, f"--horizon {horizon} must be at least 1 round")
        require(
            schedule.rounds is None or horizon <= schedule.rounds,
            f"--horizon {horizon} is longer than the {schedule.rounds} rounds of the file",
        )
        rounds = horizon
    return Scenario(name, experiment, schedule, problem, rounds)
