"""Interval weights with a step that is extrapolated where the clients disagree, as in FedExP."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from fedswe.algorithms.fedau import Client
from fedswe.algorithms.interval_weights import IntervalWeights, Weighted
from fedswe.core.algorithm import ClientView, Done, Job, ServerView, Update
from fedswe.core.records import Model, Scalar, Vector
from fedswe.errors import require


@dataclass(frozen=True)
class WeightedSquare(Weighted):
    square: Scalar  # the squared length of the progress, times the weight


@dataclass(frozen=True)
class Server(Model):
    square: Scalar  # average over rounds of sum_A w_i |D_i|^2
    length: Scalar  # average over rounds of W |D|^2


@dataclass(frozen=True)
class IntervalExtrapolation(IntervalWeights):
    """A weighted mean of the progress, lengthened by how much shorter it is than the progress of single clients.

        w_i = omega_i^power;   W = sum_A w_i;   D = (sum_A w_i D_i) / W   with D_i = end_i - x
        x   = x + lr eta D W / max(W, least m)
        eta = (sum_A w_i |D_i|^2) / (2 W |D|^2),   at least 1 and at most `longest`

    With `decay`, numerator and denominator are averages over rounds.

    Clients with different data pull in different directions, and their mean is short; eta makes up for it, and is 1
    for clients that agree or for one alone. power = 0 with least = 0 is FedExP with a bound in place of its epsilon;
    longest = 1 is interval weights. The server needs three sums. Near the end eta is large and the model moves around
    the optimum: serve an average.
    """

    power: float = 1.0  # of the interval: 0 weighs all alike, as FedExP
    least: float = 1.0  # share of m that the weighted sum is divided by at least
    longest: float = 10.0  # bound of eta
    decay: float = 0.0  # of the averages that eta is computed from; 0: from this round alone, as FedExP

    title: ClassVar[str] = "weighted mean, weights = participation intervals, extrapolated where clients disagree"
    citation: ClassVar[str] = (
        "This project. Extrapolation: Jhunjhunwala, Wang, Joshi. FedExP: Speeding up Federated Averaging via "
        "Extrapolation. ICLR 2023. Intervals: Wang, Ji (FedAU), ICLR 2024."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.decay < 1, f"decay must be at least 0 and below 1, not {self.decay:g}")
        require(1 <= self.longest < math.inf, f"longest must be at least 1 and finite, not {self.longest:g}")

    def report(self, c: Client, d: Model, job: Job, done: Done, at: ClientView) -> tuple[Client, WeightedSquare]:
        after, sent = super().report(c, d, job, done, at)
        length = (done.end - job.start).norm(dim=-1, keepdim=True)
        return after, WeightedSquare(sent.progress, sent.weight, sent.weight * length**2)

    def server_init(self, x0: Vector) -> Server:
        none = x0.new_zeros((*x0.shape[:-1], 1))
        return Server(x0, none, none)

    def merge(self, s: Any, total: Any, count: int, at: ServerView) -> Update:
        if count == 0:
            return Update(s, s.x)
        tiny = 1e-30  # where no client moved
        mean = total.progress / total.weight
        kept = self.decay
        square = kept * s.square + (1 - kept) * total.square
        length = kept * s.length + (1 - kept) * total.weight * mean.norm(dim=-1, keepdim=True) ** 2
        eta = (square / (2 * length).clamp(min=tiny)).clamp(1.0, self.longest)
        step = total.progress / total.weight.clamp(min=self.least * at.m)
        return Update(Server(s.x, square, length), s.x, eta * step)
