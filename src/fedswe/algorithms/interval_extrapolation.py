"""Interval weights with a step that is extrapolated where the clients disagree, as in FedExP."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from pydantic import Field

from fedswe.algorithms.fedau import Client
from fedswe.algorithms.interval_weights import IntervalWeights, Weighted
from fedswe.core.algorithm import ClientView, Done, Job, ServerView, Update
from fedswe.core.records import Model, Scalar
from fedswe.core.value import NonNegative


@dataclass(frozen=True)
class WeightedSquare(Weighted):
    square: Scalar  # the squared length of the progress, times the weight


@dataclass(frozen=True)
class IntervalExtrapolation(IntervalWeights):
    """A weighted mean of the progress, lengthened by how much shorter it is than the progress of single clients.

        w_i = omega_i^power;   W = sum_A w_i;   D = (sum_A w_i D_i) / W   with D_i = end_i - x
        x   = x + lr eta D W / max(W, least m)
        eta = (sum_A w_i |D_i|^2) / (2 W |D|^2),   at least 1 and at most `longest`

    Clients with different data pull in different directions, and their mean is short; eta makes up for it, and is 1
    for clients that agree or for one alone. power = 0 with least = 0 is FedExP with a bound in place of its epsilon;
    longest = 1 is interval weights. The server needs three sums. Near the end eta is large and the model moves around
    the optimum: serve an average.
    """

    power: Annotated[float, Field(ge=0, le=10)] = 1.0  # of the interval: 0 weighs all alike, as FedExP
    least: NonNegative = 1.0  # share of m that the weighted sum is divided by at least
    longest: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 10.0  # bound of eta

    title: ClassVar[str] = "weighted mean, weights = participation intervals, extrapolated where clients disagree"
    citation: ClassVar[str] = (
        "This project. Extrapolation: Jhunjhunwala, Wang, Joshi. FedExP: Speeding up Federated Averaging via "
        "Extrapolation. ICLR 2023. Intervals: Wang, Ji (FedAU), ICLR 2024."
    )

    def report(self, c: Client, d: Model, job: Job, done: Done, at: ClientView) -> tuple[Client, WeightedSquare]:
        after, sent = super().report(c, d, job, done, at)
        length = (done.end - job.start).norm(dim=-1, keepdim=True)
        return after, WeightedSquare(sent.progress, sent.weight, sent.weight * length**2)

    def merge(self, s: Model, total: Any, count: float, at: ServerView) -> Update:
        update = super().merge(s, total, count, at)
        if update.step is None:
            return update
        tiny = 1e-30  # where no client moved
        mean = (total.progress / total.weight).norm(dim=-1, keepdim=True)
        eta = (total.square / total.weight / (2 * mean**2).clamp(min=tiny)).clamp(1.0, self.longest)
        return replace(update, step=eta * update.step)
