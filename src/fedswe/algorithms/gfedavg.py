"""Generalised FedAvg: amplify the progress of every window of P rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from fedswe.core.algorithm import Algorithm, ClientView, Done, Job, ServerView, Update
from fedswe.core.records import Model, Nothing, Vector
from fedswe.core.value import Count, Positive


@dataclass(frozen=True)
class Server:
    x: Vector
    anchor: Vector  # the model at the start of this window


def amplified(x: Vector, anchor: Vector, amplification: float) -> Vector:
    """Stretch the displacement of a window."""
    return anchor + amplification * (x - anchor)


@dataclass(frozen=True)
class GFedAvg(Algorithm):
    """FedAvg over active clients; after every P rounds their joint displacement is multiplied.

        each round          x = x + lr (1/|A|) sum_A (end_i - x)
        every P rounds      x = anchor + amplification (x - anchor);   anchor = x

    Rounds without reports count in the window. Use a local rate about `amplification` times
    smaller than FedAvg's (as the authors do).
    """

    amplification: Positive = 10.0  # factor of a window's displacement
    period: Count = 100  # P, rounds of a window

    home: ClassVar[Literal["client", "server"]] = "client"  # there is no client state
    members_change: ClassVar[bool] = True
    title: ClassVar[str] = "gFedAvg: generalised FedAvg with amplified updates"
    citation: ClassVar[str] = (
        "Wang, Ji. A Unified Analysis of Federated Learning with Arbitrary Client Participation. NeurIPS 2022."
    )

    def server_init(self, x0: Vector) -> Server:
        return Server(x0, anchor=x0)

    def report(self, c: Nothing, d: Model, job: Job, done: Done, at: ClientView) -> tuple[Nothing, Model]:
        return c, Model(done.end - job.start)

    def merge(self, s: Server, total: Model, count: int, at: ServerView) -> Update:
        return Update(s, s.x, total.x if count else None, over=max(count, 1))

    def finish(self, s: Server, count: int, at: ServerView) -> tuple[Server, Nothing]:
        if (at.t + 1) % self.period:
            return s, Nothing()
        x = amplified(s.x, s.anchor, self.amplification)
        return Server(x, anchor=x), Nothing()
