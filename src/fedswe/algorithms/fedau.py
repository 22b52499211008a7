"""FedAU: weight a client by its own average participation interval."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

from fedswe.algorithms.fedavg import Averaging
from fedswe.core.algorithm import ClientView, Done, Job
from fedswe.core.records import Model, Scalar, Vector
from fedswe.core.value import Count


@dataclass(frozen=True)
class Client:
    last: Scalar  # the client's last round of participation, -1 before the first
    intervals: Scalar  # how many intervals were recorded up to then


C = TypeVar("C", bound=Client)


def no_intervals(x0: Vector) -> Client:
    """The state of a client before its first round."""
    one = x0.new_ones((*x0.shape[:-1], 1))
    return Client(last=-one, intervals=0 * one)


def mean_interval(c: C, at: ClientView, cutoff: int) -> tuple[C, Scalar]:
    """The client's state after this round, and omega_i, the mean of the intervals recorded before it."""
    # The published counter runs while the client is absent. Recorded intervals tile the rounds, so their sum is known
    # at the next visit: last + 1 rounds, and `cut` full cutoffs since.
    cut = ((at.t - c.last - 1) / cutoff).floor()
    recorded = c.intervals + cut
    mean = (c.last + 1 + cut * cutoff) / recorded.clamp(min=1)
    return replace(c, last=at.t, intervals=recorded + 1), mean.where(recorded > 0, 1.0)


@dataclass(frozen=True)
class FedAU(Averaging):
    """Weight each client by the mean of its recorded participation intervals, an online estimate of 1/p_i.

        x = x + lr (1/m) sum_A omega_i (end_i - x)

    omega_i is the mean over intervals that ended before this round (1 before any did). An absence of `cutoff`
    rounds is recorded as one interval of that length, so omega_i <= cutoff.
    """

    cutoff: Count = 50  # K

    title: ClassVar[str] = "FedAU: online estimates of participation"
    citation: ClassVar[str] = (
        "Wang, Ji. A Lightweight Method for Tackling Unknown Participation Statistics in Federated "
        "Averaging. ICLR 2024."
    )

    def client_init(self, x0: Vector) -> Client:
        return no_intervals(x0)

    def report(self, c: Client, d: Model, job: Job, done: Done, at: ClientView) -> tuple[Client, Model]:
        after, omega = mean_interval(c, at, self.cutoff)
        return after, Model(omega * (done.end - job.start))
