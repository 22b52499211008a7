"""What an algorithm is: a few pure functions over frozen records.

One round, for the clients available in it::

    downlink (server) -> plan (client) -> [training] -> report (client) -> sum -> merge (server) -> settle (client)

Three rules keep one definition valid in every engine:

* the server sees only the *sum* of the reports and their *count*;
* an absent client runs no code: a count of missed rounds is a clock read at the next visit (``at.t - c.last``);
* an algorithm never trains: ``plan`` says where to start and what to add to each gradient, ``report`` says what to send
  of the result.

All arithmetic is along the last axis, so that the same function serves one client and a stack of n. A record field
called ``x`` is a model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from fedswe.core.records import Model, Nothing, Scalar, Vector, parts, zeros
from fedswe.core.transforms import Clip, Transform
from fedswe.core.value import NonNegative, Positive, Value
from fedswe.errors import require


@dataclass(frozen=True)
class Job:
    """Where local training starts, and what is added to the direction of every local step (after the chain)."""

    start: Vector
    drift: Vector | None = None


@dataclass(frozen=True)
class Done:
    """What local training returns: the last iterate, the number of steps and the rate they were taken with."""

    end: Vector
    steps: int | Scalar  # with local.epochs each client has its own: [n, 1] in a stack
    lr: float


@dataclass(frozen=True)
class ClientView:
    """What a client knows besides its own state: the round, and its own p_i^t if it is given (simulation only)."""

    t: Scalar
    p: Scalar


@dataclass(frozen=True)
class ServerView:
    """What the server knows besides its own state."""

    t: int
    m: int  # registered clients
    local_lr: float  # eta_l of this round, which the server announces


@dataclass(frozen=True)
class Update:
    """What a merge says: the new model is base + lr (step / over), with the chain applied to the step.

    Without a step the new model is the base, and the chain is not applied.
    """

    state: Any  # the server's state; everything but its model x is already that of the next round
    base: Vector
    step: Vector | None = None
    over: float = 1.0


@dataclass(frozen=True)
class Algorithm(Value, ABC):
    """Hyper-parameters only: all state is in the records that are passed in and returned."""

    lr: Positive = 1.0  # eta_g, the global rate
    clip: NonNegative = 0.0  # L2 bound of the round's step, short for a chain that begins with clip; 0 = off
    chain: tuple[Transform, ...] = ()  # transforms of the round's step, e.g. momentum, adam, yogi

    title: ClassVar[str]
    citation: ClassVar[str]
    home: ClassVar[Literal["client", "server"]] = "server"  # where real machines keep the state of a client: at the
    # client only if that state is a function of its last reply and the round of it, so that the server can check it
    # Clients may join and leave for good: m enters the new model at most, and not the rest of the server's state, which
    # then holds no contributions that would have to be corrected.
    members_change: ClassVar[bool] = False
    needs_probabilities: ClassVar[bool] = False  # reads ClientView.p, which no real client knows
    needs_plain_sgd: ClassVar[bool] = False  # computes gradients from the local progress: no local chain but clip
    trains_while_absent: ClassVar[bool] = False  # breaks the second rule above; FedPBC only

    def __post_init__(self) -> None:
        for transform in self.chain:
            name = type(transform).__name__
            require(transform.at_server, f"chain: {name} has no meaning at the server: put it into local.chain")

    @property
    def transforms(self) -> tuple[Transform, ...]:
        """The server's whole chain, the short form `clip` included."""
        return (Clip(self.clip), *self.chain) if self.clip else self.chain

    # at the server -------------------------------------------------------------------------------------
    def server_init(self, x0: Vector) -> Any:
        return Model(x0)

    def downlink(self, s: Any, at: ServerView) -> Any:
        """What every client is sent before its work."""
        return Model(s.x)

    @abstractmethod
    def merge(self, s: Any, total: Any, count: float, at: ServerView) -> Update:
        """What the server makes of the sum of the reports; called in every round, also with count 0.

        With client weights, the count is the sum of the weights of those that report, and may be below 1.
        """

    def finish(self, s: Any, count: float, at: ServerView) -> tuple[Any, Any]:
        """The server's state and the reply to the clients that reported, once the new model is in s.x."""
        return s, Nothing()

    def moved_to(self, s: Any, x: Vector) -> Any:
        """The server's state after something outside of the rule has put another model in the place of its own."""
        return replace(s, x=x)

    # at an available client ----------------------------------------------------------------------------
    def client_init(self, x0: Vector) -> Any:
        return Nothing()

    def plan(self, c: Any, d: Any, at: ClientView) -> Job:
        return Job(d.x)

    @abstractmethod
    def report(self, c: Any, d: Any, job: Job, done: Done, at: ClientView) -> tuple[Any, Any]:
        """The client's state after its work, and what it sends."""

    def settle(self, c: Any, r: Any, at: ClientView) -> Any:
        """The client's state once the reply has arrived ("postponed multicast")."""
        return c

    # weights -------------------------------------------------------------------------------------------
    @property
    def takes_weights(self) -> bool:
        """Whether a client of weight w may count as w clients: `merge` must give the same when total, count and m are
        multiplied by one number, and a copy must behave as its original. A rule outside the package has to say so."""
        return type(self).__module__.startswith("fedswe.") and not self.seats()  # copies would bid for seats apart

    # selection -----------------------------------------------------------------------------------------
    def seats(self) -> int:
        """How many of the available clients may report in a round; 0 means all of them."""
        return 0

    def bid(self, c: Any, at: ClientView) -> Scalar:
        """With seats: the clients with the lowest bids report, ties are broken at random."""
        return at.t * 0


def received(down: Any, reply: Any) -> Vector:
    """The last model sent to a client that reported: the reply's, or the one it was sent before its work."""
    return reply.x if "x" in parts(reply) else down.x  # type: ignore[no-any-return]


def empty_report(algorithm: Algorithm, x0: Vector) -> Any:
    """The sum of no reports: a report of the right shape, all zeros."""
    one = x0.new_ones((1,))
    client, at = algorithm.client_init(x0), ClientView(t=one, p=one)
    down = algorithm.downlink(algorithm.server_init(x0), ServerView(t=1, m=1, local_lr=1.0))
    job = algorithm.plan(client, down, at)
    return zeros(algorithm.report(client, down, job, Done(job.start, steps=1, lr=1.0), at)[1])
