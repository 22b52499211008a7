"""Interval weights: a weighted mean of the progress, with weights that grow slower than the participation intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from fedswe.algorithms.fedau import Client, mean_interval, no_intervals
from fedswe.core.algorithm import Algorithm, ClientView, Done, Job, ServerView, Update
from fedswe.core.records import Model, Scalar, Vector
from fedswe.core.value import Count, NonNegative


@dataclass(frozen=True)
class Weighted:
    """A client's progress times its weight, and the weight: the server divides one sum by the other."""

    progress: Vector
    weight: Scalar


@dataclass(frozen=True)
class IntervalWeights(Algorithm):
    """The mean of the progress over the clients that are there, weighted by a power of their participation intervals.

        w_i = omega_i^power;   x = x + lr (sum_A w_i (end_i - x)) / max(sum_A w_i, least m)

    omega_i is FedAU's estimate of 1/p_i: the mean of the recorded intervals, at most `cutoff`. With power = 0 this is
    FedAvg over the active clients. With power = 1 the weights are FedAU's, but they are divided by their own sum and
    not by m: the length of the step does not vary with who is there. In between, a part of FedAvg's bias remains, and
    rare clients with large weights add less variance.

    With least = 1 a round with few clients makes a short step, as in FedAU, which is less noisy; and many large
    weights at once, which come with a group that returns together, make no step longer than a mean. With power = 1
    this is FedAU exactly while the sum of the weights is at most m, its mean over the rounds.
    """

    power: Annotated[float, Field(ge=0, le=10)] = 0.5  # of the interval: 0 is FedAvg
    cutoff: Count = 50  # K, rounds after which an absence is recorded as an interval
    least: NonNegative = 0.0  # share of m that the weighted sum is divided by at least

    members_change: ClassVar[bool] = True
    title: ClassVar[str] = "weighted mean, weights = participation intervals to a power"
    citation: ClassVar[str] = "This project; the intervals are those of FedAU (Wang and Ji, ICLR 2024)."

    def client_init(self, x0: Vector) -> Client:
        return no_intervals(x0)

    def report(self, c: Client, d: Model, job: Job, done: Done, at: ClientView) -> tuple[Client, Weighted]:
        after, omega = mean_interval(c, at, self.cutoff)
        weight = omega**self.power
        return after, Weighted(weight * (done.end - job.start), weight)

    def merge(self, s: Model, total: Weighted, count: float, at: ServerView) -> Update:
        return Update(s, s.x, total.progress / total.weight.clamp(min=self.least * at.m) if count else None)
