"""FedAU: weight a client by its own average participation interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedswe.core.algorithm import Algorithm, ClientView, Done, Job, ServerView, Update
from fedswe.core.records import Model, Scalar, Vector
from fedswe.errors import require


@dataclass(frozen=True)
class Client:
    last: Scalar  # the client's last round of participation, -1 before the first
    intervals: Scalar  # how many intervals were recorded up to then


def mean_interval(last: Scalar, intervals: Scalar, t: Scalar, cutoff: int) -> tuple[Scalar, Scalar]:
    """The mean of the participation intervals recorded before round t (1 if there are none), and their number."""
    # The published counter runs while the client is absent. Recorded intervals tile the rounds, so their
    # sum is known at the next visit: last + 1 rounds, and `cut` full cutoffs since.
    cut = ((t - last - 1) / cutoff).floor()
    recorded = intervals + cut
    mean = (last + 1 + cut * cutoff) / recorded.clamp(min=1)
    return mean.where(recorded > 0, 1.0), recorded


def check_cutoff(cutoff: int) -> None:
    require(cutoff >= 1, f"cutoff must be at least 1 round, not {cutoff}")


@dataclass(frozen=True)
class FedAU(Algorithm):
    """Weight each client by the mean of its recorded participation intervals, an online estimate of 1/p_i.

        x = x + lr (1/m) sum_A omega_i (end_i - x)

    omega_i is the mean over intervals that ended before this round (1 before any did). An absence of `cutoff`
    rounds is recorded as one interval of that length, so omega_i <= cutoff.
    """

    cutoff: int = 50  # K

    members_change: ClassVar[bool] = True
    title: ClassVar[str] = "FedAU: online estimates of participation"
    citation: ClassVar[str] = (
        "Wang, Ji. A Lightweight Method for Tackling Unknown Participation Statistics in Federated "
        "Averaging. ICLR 2024."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_cutoff(self.cutoff)

    def client_init(self, x0: Vector) -> Client:
        one = x0.new_ones((*x0.shape[:-1], 1))
        return Client(last=-one, intervals=0 * one)

    def report(self, c: Client, d: Model, job: Job, done: Done, at: ClientView) -> tuple[Client, Model]:
        omega, recorded = mean_interval(c.last, c.intervals, at.t, self.cutoff)
        return Client(last=at.t, intervals=recorded + 1), Model(omega * (done.end - job.start))

    def merge(self, s: Model, total: Model, count: int, at: ServerView) -> Update:
        return Update(s, s.x, total.x if count else None, over=at.m)
