"""FedStale: stale updates as a control variate whose weight is a parameter."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from fedswe.algorithms.fedau import Client, mean_interval, no_intervals
from fedswe.algorithms.fedvarp import LatestUpdates, Server
from fedswe.core.algorithm import ClientView, Done, Job, ServerView, Update
from fedswe.core.records import Model, Scalar, Vector
from fedswe.core.value import Count, Probability


@dataclass(frozen=True)
class Memory:
    h: Vector  # h_i, the client's last update


@dataclass(frozen=True)
class CountedMemory(Client):
    h: Vector  # h_i, the client's last update


@dataclass(frozen=True)
class Innovation:
    weighted: Vector  # (end_i - x - beta h_i) / p_i
    change: Vector  # of h_i


@dataclass(frozen=True)
class Stale(LatestUpdates):
    """The step of FedStale; the two algorithms differ in what they use for 1/p_i."""

    beta: Probability = 0.5  # weight of stale updates: 0 is FedAvg with weights 1/p_i, 1 is FedVARP with them

    @abstractmethod
    def weighed(self, c: Any, at: ClientView) -> tuple[Any, Scalar]:
        """The client's state after this round but for h_i, and its 1/p_i."""

    def report(self, c: Any, d: Model, job: Job, done: Done, at: ClientView) -> tuple[Any, Innovation]:
        after, weight = self.weighed(c, at)
        update = done.end - job.start
        return replace(after, h=update), Innovation(weight * (update - self.beta * c.h), update - c.h)

    def merge(self, s: Server, total: Innovation, count: float, at: ServerView) -> Update:
        if count == 0:
            return Update(s, s.x)
        v = self.beta * s.mean + total.weighted / at.m
        return Update(Server(s.x, s.mean + total.change / at.m), s.x, v)


@dataclass(frozen=True)
class FedStaleKnown(Stale):
    """FedStale with the true current probabilities, which only a simulation knows.

        v = beta mean(h) + (1/m) sum_A (end_i - x - beta h_i) / p_i^t;   x = x + lr v;   h_i = end_i - x for i in A

    mean(h) is over all m clients, before this round; h_i = 0 before the first report. Without reports, x stays, as in
    the released code. beta = 0 is `fedavg_known`; beta = 1 with p_i^t = |A|/m is `fedvarp`.

    Deviations: published with the h_i at the server, O(md); here each client keeps its own and sends the difference, a
    second vector. Clients have equal weights, not by data size.
    """

    needs_probabilities: ClassVar[bool] = True
    title: ClassVar[str] = "FedStale with known probabilities"
    citation: ClassVar[str] = (
        "Rodio, Neglia. FedStale: leveraging stale client updates in federated learning. arXiv 2405.04171, 2024."
    )

    def client_init(self, x0: Vector) -> Memory:
        return Memory(h=x0.new_zeros(x0.shape))

    def weighed(self, c: Memory, at: ClientView) -> tuple[Memory, Scalar]:
        return c, 1 / at.p


@dataclass(frozen=True)
class FedStale(Stale):
    """FedStale with FedAU's mean participation interval as the estimate of 1/p_i (as in the released code).

        v = beta mean(h) + (1/m) sum_A omega_i (end_i - x - beta h_i);   x = x + lr v;   h_i = end_i - x for i in A

    omega_i is that of `fedau`; all else is as in `fedstale_known`. beta = 0 is `fedau`.
    """

    cutoff: Count = 50  # K, FedAU's longest recorded interval

    title: ClassVar[str] = "FedStale: stale updates with weight beta"
    citation: ClassVar[str] = FedStaleKnown.citation

    def client_init(self, x0: Vector) -> CountedMemory:
        none = no_intervals(x0)
        return CountedMemory(h=x0.new_zeros(x0.shape), last=none.last, intervals=none.intervals)

    def weighed(self, c: CountedMemory, at: ClientView) -> tuple[CountedMemory, Scalar]:
        return mean_interval(c, at, self.cutoff)
