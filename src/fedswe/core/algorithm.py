"""What an algorithm is: a few pure functions over frozen records.

One round, for the clients available in it::

    downlink (server) -> plan (client) -> [training] -> report (client) -> sum -> merge (server) -> settle (client)

Three rules keep one definition valid in every engine:

* the server sees only the *sum* of the reports and their *count*;
* an absent client runs no code, so counters of absence are clocks read at the next visit (``at.t - c.last``);
* an algorithm never trains: ``plan`` says where to start and what to add to each gradient, ``report`` says
  what to make of the result.

All arithmetic is along the last axis, so the same function serves one client and a stack of n.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import torch

from fedswe.core.records import Model, Nothing, Scalar, Vector, zeros
from fedswe.errors import require

S = TypeVar("S")  # server state
C = TypeVar("C")  # client state
D = TypeVar("D")  # downlink: server -> client, before the work
U = TypeVar("U")  # uplink: the report
R = TypeVar("R")  # reply: server -> reporting clients, after the merge


@dataclass(frozen=True)
class Job:
    """Where local training starts, and what is added to every (clipped) stochastic gradient."""

    start: Vector
    drift: Vector | None = None


@dataclass(frozen=True)
class Done:
    """What local training returns: the last iterate, the number of steps and the rate they were taken with."""

    end: Vector
    steps: int
    lr: float


@dataclass(frozen=True)
class ClientView:
    """What a client knows besides its own state: the round, and its own p_i^t where an oracle grants it."""

    t: Scalar
    p: Scalar


@dataclass(frozen=True)
class ServerView:
    """What the server knows besides its own state."""

    t: int
    m: int  # registered clients
    local_lr: float  # eta_l of this round, which the server announces


@dataclass(frozen=True)
class Algorithm(ABC, Generic[S, C, D, U, R]):
    """Hyper-parameters only: all state is in the records that are passed in and returned."""

    lr: float = 1.0  # eta_g, the global rate

    title: ClassVar[str]
    citation: ClassVar[str]
    needs_probabilities: ClassVar[bool] = False  # reads ClientView.p, which no real client knows
    trains_while_absent: ClassVar[bool] = False  # breaks the second rule above; FedPBC only

    def __post_init__(self) -> None:
        require(0 < self.lr < math.inf, f"lr must be positive, not {self.lr:g}")

    # at the server -------------------------------------------------------------------------------------
    def server_init(self, x0: Vector) -> S:
        return Model(x0)  # type: ignore[return-value]

    def downlink(self, s: S, at: ServerView) -> D:
        return Model(self.model(s))  # type: ignore[return-value]

    @abstractmethod
    def merge(self, s: S, total: U, count: int, at: ServerView) -> tuple[S, R]:
        """The new server state and the reply to those who reported; called every round, also with count 0."""

    def model(self, s: S) -> Vector:
        """The server's model x^t."""
        x: Vector = s.x  # type: ignore[attr-defined]
        return x

    # at an available client ----------------------------------------------------------------------------
    def client_init(self, x0: Vector) -> C:
        return Nothing()  # type: ignore[return-value]

    def plan(self, c: C, d: D, at: ClientView) -> Job:
        return Job(d.x)  # type: ignore[attr-defined]

    @abstractmethod
    def report(self, c: C, d: D, job: Job, done: Done, at: ClientView) -> tuple[C, U]:
        """The client's state after its work, and what it sends."""

    def settle(self, c: C, r: R, at: ClientView) -> C:
        """The client's state once the reply has arrived ("postponed multicast")."""
        return c

    def received(self, d: D, r: R) -> Vector:
        """The last model a client that reported in this round was sent."""
        x: Vector = d.x  # type: ignore[attr-defined]
        return x

    # selection and analysis ----------------------------------------------------------------------------
    def seats(self) -> int:
        """How many of the available clients may report in a round; 0 means all of them."""
        return 0

    def bid(self, c: C, at: ClientView) -> Scalar:
        """With seats: the lowest bids get them, ties at random."""
        return at.t * 0

    def virtual_clients(self) -> float:
        """Weight of the server's own model in the average, FedSWE's k: the analysis counts m + k clients."""
        return 0.0


AnyAlgorithm = Algorithm[Any, Any, Any, Any, Any]


def empty_report(algorithm: AnyAlgorithm, x0: Vector) -> Any:
    """The sum over nobody: a report of the right shape, all zeros (an algorithm never trains, so this is free)."""
    one = torch.ones(1, dtype=x0.dtype, device=x0.device)
    client, at = algorithm.client_init(x0), ClientView(t=one, p=one)
    down = algorithm.downlink(algorithm.server_init(x0), ServerView(t=1, m=1, local_lr=1.0))
    job = algorithm.plan(client, down, at)
    return zeros(algorithm.report(client, down, job, Done(job.start, steps=1, lr=1.0), at)[1])
