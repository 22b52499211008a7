"""Generalised FedAvg: amplify the progress of every window of P rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedswe.algorithms.fedavg import FedAvg
from fedswe.core.algorithm import ServerView
from fedswe.core.records import Nothing, Vector
from fedswe.core.value import Count, Positive


@dataclass(frozen=True)
class Server:
    x: Vector
    anchor: Vector  # the model at the start of this window


@dataclass(frozen=True)
class GFedAvg(FedAvg):
    """FedAvg over active clients; after every P rounds their joint displacement is multiplied.

        each round          x = x + lr (1/|A|) sum_A (end_i - x)
        every P rounds      x = anchor + amplification (x - anchor);   anchor = x

    Rounds without reports count in the window. Use a local rate about `amplification` times
    smaller than FedAvg's (as the authors do).
    """

    amplification: Positive = 10.0  # factor of a window's displacement
    period: Count = 100  # P, rounds of a window

    title: ClassVar[str] = "gFedAvg: generalised FedAvg with amplified updates"
    citation: ClassVar[str] = (
        "Wang, Ji. A Unified Analysis of Federated Learning with Arbitrary Client Participation. NeurIPS 2022."
    )

    def server_init(self, x0: Vector) -> Server:
        return Server(x0, anchor=x0)

    def finish(self, s: Server, count: float, at: ServerView) -> tuple[Server, Nothing]:
        if (at.t + 1) % self.period:
            return s, Nothing()
        x = s.anchor + self.amplification * (s.x - s.anchor)
        return Server(x, anchor=x), Nothing()
