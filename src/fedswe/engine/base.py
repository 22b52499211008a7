"""What both engines share: the clock, the server, selection, and the models a run can be judged by."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from fedswe.availability.schedule import Bools, Schedule
from fedswe.core import keys
from fedswe.core.algorithm import AnyAlgorithm, ClientView, Done, ServerView, empty_report
from fedswe.core.records import Scalar, Vector, parts
from fedswe.core.transfer import to_device
from fedswe.engine.solvers import fused_cnn as fused
from fedswe.engine.work import Ids as Ids
from fedswe.engine.work import Local, Work, train_all
from fedswe.errors import FedsweError, require
from fedswe.tasks.problem import Problem


@dataclass(frozen=True)
class Attendance:
    """Who was there in one round, and how long they had been away."""

    available: int
    reported: int
    echoes: Ids  # t - tau_i of those who reported


class Engine(ABC):
    """Runs rounds of one algorithm on one problem. ``state`` and ``load`` carry it across processes."""

    def __init__(self, algorithm: AnyAlgorithm, problem: Problem, schedule: Schedule, local: Local, seed: int) -> None:
        require(
            schedule.m == problem.m,
            f"the availability is for {schedule.m} clients, the task has {problem.m}",
        )
        if algorithm.needs_probabilities and np.isnan(schedule.prob(0)).any():
            raise FedsweError(
                f"{type(algorithm).__name__} needs the true probabilities: give availability.prob_file with the mask"
            )
        self.algorithm, self.problem, self.schedule, self.local = algorithm, problem, schedule, local
        self.seed, self.m, self.t = seed, problem.m, 0
        self.server: Any = algorithm.server_init(problem.start)
        self.last: Ids = np.full(self.m, -1)  # tau_i: for statistics and ties, whatever the algorithm keeps
        self._nobody = empty_report(algorithm, problem.start)

    @property
    def on_gpu(self) -> bool:
        return self.problem.start.device.type == "cuda"

    # one round -----------------------------------------------------------------------------------------
    def step(self) -> Attendance:
        """Run round t and advance the clock."""
        return step_together([self])[0]

    def round(self) -> Generator[Work, Done, Attendance]:
        """Round t in two halves: it hands out the local training and goes on with the result."""
        available = self.schedule.sample(self.t)
        chosen = self._seated(np.flatnonzero(available))
        yield from self._round(chosen)
        echoes = self.t - self.last[chosen]
        self.last[chosen] = self.t
        self.t += 1
        return Attendance(int(available.sum()), len(chosen), echoes)

    @abstractmethod
    def _round(self, chosen: Ids) -> Generator[Work, Done, None]:
        """Everything from downlink to settle for the clients that report."""

    @abstractmethod
    def _client_state(self, ids: Ids) -> Any:
        """The stacked records of the given clients."""

    def _at_server(self) -> ServerView:
        return ServerView(self.t, self.m, self.local.lr_at(self.t))

    def _at_clients(self, ids: Ids) -> ClientView:
        """The view of n clients: one round index for all, one probability each."""
        prob = to_device(self.schedule.prob(self.t)[ids, None], self.problem.start.device)
        return ClientView(t=self._scalar(self.t), p=prob.to(self.problem.start.dtype))

    def _scalar(self, value: float) -> Scalar:
        return self.problem.start.new_full((1,), float(value))

    def _seated(self, available: Ids) -> Ids:
        """The available clients, or the lowest bidders among them when seats are limited (ties at random)."""
        seats = self.algorithm.seats()
        if not seats or len(available) <= seats:
            return available
        bids = self.algorithm.bid(self._client_state(available), self._at_clients(available))
        ties = keys.uniform(self.seed, "seats", self.t, torch.as_tensor(available)).numpy()
        order = np.lexsort((ties, bids.flatten().cpu().numpy()))
        return np.sort(available[order[:seats]])

    def _working(self, chosen: Ids) -> Ids:
        return np.arange(self.m) if self.algorithm.trains_while_absent else chosen

    # models a run can be judged by ---------------------------------------------------------------------
    def server_model(self) -> Vector:
        """x^t."""
        return self.algorithm.model(self.server)

    @abstractmethod
    def client_mean(self) -> Vector:
        """The mean over all clients of the model each last received (x^0 before the first)."""

    @abstractmethod
    def client_models(self) -> Vector:
        """The model each client last received, [m, d]: a copy per client, for analysis only."""

    def augmented_mean(self) -> Vector:
        """The mean over the m clients and the k virtual ones, which hold the server's model."""
        k = self.algorithm.virtual_clients()
        return (self.m * self.client_mean() + k * self.server_model()) / (self.m + k)

    def evaluate(self, x: Vector) -> dict[str, float]:
        """Named scores of a model."""
        return fused.scores(self.problem, x)

    # checkpoints ---------------------------------------------------------------------------------------
    def state(self) -> dict[str, torch.Tensor]:
        """All that the next round depends on. Random streams are functions of the round, so t stands for them."""
        named = {f"server.{n}": v for n, v in parts(self.server).items()}
        return {**named, "last": torch.as_tensor(self.last), **self._clients_out()}

    def load(self, state: Mapping[str, torch.Tensor], t: int) -> None:
        """Continue at round t from what ``state`` gave there."""
        self.t = t
        named = {n: state[f"server.{n}"].to(self.problem.start.device) for n in parts(self.server)}
        self.server = replace(self.server, **named)
        self.last = state["last"].numpy().copy()
        self._clients_in(state)

    @abstractmethod
    def _clients_out(self) -> dict[str, torch.Tensor]: ...

    @abstractmethod
    def _clients_in(self, state: Mapping[str, torch.Tensor]) -> None: ...


def step_together(engines: Sequence[Engine]) -> list[Attendance]:
    """One round of each engine, their local training solved as one: what fills a GPU, and a CPU's vector units."""
    rounds = [engine.round() for engine in engines]
    seen: dict[int, Attendance] = {}
    works: dict[int, Work] = {}
    # Bids for seats wait for a GPU to finish the round before. Those who need none start first and draw meanwhile.
    for i in sorted(range(len(engines)), key=lambda i: engines[i].algorithm.seats()):
        try:
            works[i] = next(rounds[i])
            works[i].batches  # noqa: B018
        except StopIteration as ended:  # nobody trained
            seen[i] = ended.value
    works = dict(sorted(works.items()))
    for i, done in zip(works, train_all(list(works.values())), strict=True):
        try:
            rounds[i].send(done)
        except StopIteration as ended:
            seen[i] = ended.value
    return [seen[i] for i in range(len(engines))]


def availability_of(schedule: Schedule, rounds: int) -> Bools:
    """The mask [rounds, m] a run of that many rounds sees."""
    return np.stack([schedule.sample(t) for t in range(rounds)])
