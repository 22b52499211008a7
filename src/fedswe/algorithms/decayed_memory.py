"""Decayed memory: the server steps with the last update of every client, weighted less the older it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from fedswe.algorithms.fedau import Client as Intervals
from fedswe.algorithms.fedau import mean_interval, no_intervals
from fedswe.core.algorithm import Algorithm, ClientView, Done, Job, ServerView, Update
from fedswe.core.records import Model, Scalar, Vector
from fedswe.core.value import Count, Decay, NonNegative


@dataclass(frozen=True)
class Client(Intervals):
    update: Vector  # u_i U_i, the client's last contribution
    weight: Scalar  # u_i, its weight when it was sent; 0 before the first


@dataclass(frozen=True)
class Change:
    """How the client's entries changed: the server keeps the sums of all entries from such differences."""

    update: Vector
    weight: Scalar


@dataclass(frozen=True)
class Server:
    x: Vector
    update: Vector  # sum over all clients of decay^age u_i U_i
    weight: Scalar  # sum over all clients of decay^age u_i


@dataclass(frozen=True)
class DecayedMemory(Algorithm):
    """Step with a weighted mean of the last update of every client; the weight of an update decays with its age.

        U_i = end_i - x and u_i = (decay + (1 - decay) omega_i)^power for i in A
        x   = x + lr (sum_i decay^(t - tau_i) u_i U_i) / (sum_i decay^(t - tau_i) u_i)    over all clients seen so far

    tau_i is the last round of client i, and omega_i is FedAU's estimate of 1/p_i. With decay = 0 only the updates of
    this round count: FedAvg for power = 0, and interval weights for other powers. With decay near 1 updates are
    kept for long, as MIFA keeps them for ever. In between, a client that is absent for a while still counts, and one
    that is absent for long does not pull the model with an outdated update.

    With availability p_i, independent in every round, the mean of decay^age is p_i / (1 - decay (1 - p_i)), so that u_i
    with power = 1 gives every client the same weight on average. Without reports the server keeps its model.
    """

    decay: Decay = 0.9  # of the weight of an update, per round
    power: NonNegative = 1.0  # of the correction u_i: 0 leaves it out
    cutoff: Count = 50  # K, rounds after which an absence is recorded as an interval

    members_change: ClassVar[bool] = True  # the last update of a client that left fades
    title: ClassVar[str] = "last updates of all clients, with weights that decay with their age"
    citation: ClassVar[str] = (
        "This project. Memory as in MIFA (Gu and others, NeurIPS 2021), weights that fall with inactivity as in FedAR "
        "(Jiang and others, 2024), intervals as in FedAU (Wang and Ji, ICLR 2024)."
    )

    def server_init(self, x0: Vector) -> Server:
        return Server(x0, update=x0.new_zeros(x0.shape), weight=x0.new_zeros((*x0.shape[:-1], 1)))

    def client_init(self, x0: Vector) -> Client:
        none = no_intervals(x0)
        return Client(update=x0.new_zeros(x0.shape), weight=none.intervals, last=none.last, intervals=none.intervals)

    def report(self, c: Client, d: Model, job: Job, done: Done, at: ClientView) -> tuple[Client, Change]:
        after, omega = mean_interval(c, at, self.cutoff)
        weight = (self.decay + (1 - self.decay) * omega) ** self.power
        update = weight * (done.end - job.start)
        left = self.decay ** (at.t - c.last)  # of the entry that the server still counts
        change = Change(update - left * c.update, weight - left * c.weight)
        return replace(after, update=update, weight=weight), change

    def merge(self, s: Server, total: Change, count: float, at: ServerView) -> Update:
        update, weight = self.decay * s.update + total.update, self.decay * s.weight + total.weight
        after = Server(s.x, update, weight)
        return Update(after, s.x, update / weight if count else None)
