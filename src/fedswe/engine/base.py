"""What both engines share: the round, the server, selection, and the models a run is evaluated at."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from fedswe.availability.schedule import Bools, Schedule, require_probabilities
from fedswe.clock.model import Timeline, Untimed
from fedswe.core import aggregation, keys
from fedswe.core.algorithm import Algorithm, ClientView, ServerView, empty_report
from fedswe.core.local import Local
from fedswe.core.records import Scalar, Vector, to_device
from fedswe.engine import solvers
from fedswe.engine.work import Ids
from fedswe.errors import require
from fedswe.tasks.problem import Problem


@dataclass(frozen=True)
class Attendance:
    """Which clients took part in one round, and how long they had been absent."""

    available: int
    reported: int
    echoes: Ids  # t - tau_i of the clients that reported


class Engine(ABC):
    """Runs rounds of one algorithm on one problem. ``state`` and ``load`` carry it across processes.

    Without a timeline, round t of the run is round t of the schedule, and all selected clients report.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        problem: Problem,
        schedule: Schedule,
        local: Local,
        seed: int,
        timeline: Timeline | None = None,
    ) -> None:
        require(schedule.m == problem.m, f"the availability is for {schedule.m} clients, the task has {problem.m}")
        require_probabilities(schedule, algorithm)
        self.algorithm, self.problem, self.schedule, self.local = algorithm, problem, schedule, local
        self.seed, self.m, self.t = seed, problem.m, 0
        self.weights, name = problem.weights, type(algorithm).__name__  # None: each client counts as one
        counts = "it selects or counts single clients, or does not define takes_weights"
        require(
            self.weights is None or algorithm.takes_weights, f"{name} takes no task.weights ({counts}): leave them out"
        )
        self.timeline = timeline or Untimed(schedule)
        self.server = aggregation.begin(algorithm, problem.start)
        self.last: Ids = np.full(self.m, -1)  # tau_i: for statistics and ties, whatever the algorithm keeps
        self._empty = empty_report(algorithm, problem.start)

    # one round -----------------------------------------------------------------------------------------
    @abstractmethod
    def step(self) -> Attendance:
        """Run round t and advance to the next."""

    def _select(self) -> tuple[int, Ids]:
        """How many clients are available in round t, and which of them are selected and report."""
        available = self.timeline.available(self.t)
        selected = self._seated(np.flatnonzero(available))
        return int(available.sum()), self.timeline.reporting(self.t, selected, self.last >= 0)

    def _count(self, ids: Ids) -> float:
        """As how many clients these count."""
        return len(ids) if self.weights is None else float(self.weights[ids].sum())

    def _advance(self, available: int, chosen: Ids) -> Attendance:
        echoes = self.t - self.last[chosen]
        self.last[chosen] = self.t
        self.t += 1
        self.timeline.advance()
        return Attendance(available, len(chosen), echoes)

    @abstractmethod
    def _client_state(self, ids: Ids) -> Any:
        """The stacked records of the given clients."""

    def _at_server(self) -> ServerView:
        return ServerView(self.t, self.m, self.local.lr_at(self.t))

    def _at_clients(self, ids: Ids) -> ClientView:
        """The view of n clients: one round index for all, one probability each."""
        prob = to_device(self.timeline.prob(self.t)[ids, None], self.problem.start.device)
        return ClientView(t=self._scalar(self.t), p=prob.to(self.problem.start.dtype))

    def _scalar(self, value: float) -> Scalar:
        return self.problem.start.new_full((1,), float(value))

    def _seated(self, available: Ids) -> Ids:
        """The available clients, or those with the lowest bids when seats are limited (ties at random)."""
        seats = self.algorithm.seats()
        if not seats or len(available) <= seats:
            return available
        bids = self.algorithm.bid(self._client_state(available), self._at_clients(available))
        ties = keys.uniform(self.seed, "seats", self.t, torch.as_tensor(available)).numpy()
        order = np.lexsort((ties, bids.flatten().cpu().numpy()))
        return np.sort(available[order[:seats]])

    def _working(self, chosen: Ids) -> Ids:
        return np.arange(self.m) if self.algorithm.trains_while_absent else chosen

    # models of a run -----------------------------------------------------------------------------------
    def server_model(self) -> Vector:
        """x^t."""
        return self.server.model

    @abstractmethod
    def client_mean(self) -> Vector:
        """The mean over all clients of the model each last received (x^0 before the first)."""

    @abstractmethod
    def client_models(self) -> Vector:
        """The model each client last received, [m, d]: a copy per client, for analysis only."""

    def evaluate(self, x: Vector) -> dict[str, float]:
        """Named scores of a model."""
        return solvers.scores(self.problem, x)

    # checkpoints ---------------------------------------------------------------------------------------
    def state(self) -> dict[str, torch.Tensor]:
        """All that the next round depends on. Random streams are functions of the round, so t stands for them."""
        named = {f"server.{n}": v for n, v in self.server.tensors().items()}
        timeline = torch.as_tensor(self.timeline.state())
        timed = {"timeline": timeline} if timeline.numel() else {}
        return {**named, "last": torch.as_tensor(self.last), **timed, **self._clients_out()}

    def load(self, state: Mapping[str, torch.Tensor], t: int) -> None:
        """Continue at round t from what ``state`` gave there."""
        self.t = t
        device = self.problem.start.device
        self.server = self.server.with_tensors({n: state[f"server.{n}"].to(device) for n in self.server.tensors()})
        self.last = state["last"].numpy().copy()
        if len(self.timeline.state()):
            self.timeline.load(state["timeline"].numpy(), t)
        self._clients_in(state)

    @abstractmethod
    def _clients_out(self) -> dict[str, torch.Tensor]: ...

    @abstractmethod
    def _clients_in(self, state: Mapping[str, torch.Tensor]) -> None: ...


def availability_of(schedule: Schedule, rounds: int) -> Bools:
    """The mask [rounds, m] a run of that many rounds sees."""
    return np.stack([schedule.sample(t) for t in range(rounds)])
