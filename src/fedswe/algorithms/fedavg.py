"""FedAvg over the active clients, over all clients, and with known probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from fedswe.core.algorithm import Algorithm, ClientView, Done, Job, ServerView, Update
from fedswe.core.records import Model


@dataclass(frozen=True)
class Averaging(Algorithm):
    """Step along the sum of the progress of the clients that report, divided by m.

    Rules weigh the progress, or divide the sum by another number.
    """

    members_change: ClassVar[bool] = True

    def report(self, c: Any, d: Any, job: Job, done: Done, at: ClientView) -> tuple[Any, Model]:
        return c, Model(done.end - job.start)

    def merge(self, s: Any, total: Model, count: float, at: ServerView) -> Update:
        return Update(s, s.x, total.x if count else None, over=self.divisor(count, at))

    def divisor(self, count: float, at: ServerView) -> float:
        return at.m


@dataclass(frozen=True)
class FedAvg(Averaging):
    """Average the progress of the clients that report.

        x = x + lr (1/|A|) sum_A (end_i - x)

    Biased towards clients that are often available. With no report, x stays. With a chain at the server it is another
    published algorithm, at the clients FedProx (local.chain=prox:0.01):

        FedAvgM      fedavg:chain=[momentum:0.9]
        FedAdam      fedavg:chain=[adam:beta2=0.99:eps=0.001:correct_bias=false]
        FedYogi      fedavg:chain=[yogi]
        FedAdagrad   fedavg:chain=[adagrad]
    """

    home: ClassVar[Literal["client", "server"]] = "client"  # there is no client state
    title: ClassVar[str] = "FedAvg over active clients"
    citation: ClassVar[str] = (
        "McMahan, Moore, Ramage, Hampson, Aguera y Arcas. Communication-Efficient Learning of Deep Networks "
        "from Decentralized Data. AISTATS 2017. (By data size with task.weights = samples.)"
    )

    def divisor(self, count: float, at: ServerView) -> float:
        return count or 1


@dataclass(frozen=True)
class FedAvgAll(Averaging):
    """Average over all m clients, the absent counting as no progress.

    x = x + lr (1/m) sum_A (end_i - x)
    """

    home: ClassVar[Literal["client", "server"]] = "client"  # there is no client state
    title: ClassVar[str] = "FedAvg over all clients"
    citation: ClassVar[str] = FedAvg.citation


@dataclass(frozen=True)
class FedAvgKnown(FedAvgAll):
    """Weight each client by the inverse of its true current probability, which only a simulation knows.

        x = x + lr (1/m) sum_A (end_i - x) / p_i^t

    Unbiased while every p_i^t > 0; only an available client divides, so p = 0 never does.
    """

    title: ClassVar[str] = "FedAvg with known probabilities"
    citation: ClassVar[str] = (
        "Perazzone, Wang, Ji, Chan. Communication-Efficient Device Scheduling for Federated Learning Using "
        "Stochastic Optimization. INFOCOM 2022. (Its aggregation rule; not its scheduler.)"
    )
    needs_probabilities: ClassVar[bool] = True

    def report(self, c: Any, d: Any, job: Job, done: Done, at: ClientView) -> tuple[Any, Model]:
        return c, Model((done.end - job.start) / at.p)
