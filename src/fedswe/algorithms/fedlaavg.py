"""FedLaAvg: average the latest gradients of all clients; the clients that were away longest train first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedswe.algorithms.fedvarp import LatestUpdates, Server
from fedswe.core.algorithm import ClientView, Done, Job, ServerView, Update
from fedswe.core.records import Model, Scalar, Vector
from fedswe.core.value import Natural


@dataclass(frozen=True)
class Client:
    update: Vector  # the client's latest progress over the local rate; 0 before the first
    last: Scalar  # the last round in which the client was selected, -1 before the first


@dataclass(frozen=True)
class FedLaAvg(LatestUpdates):
    """Every round, step along the mean of the latest updates of all clients.

        U_i = (end_i - x) / eta_l for i in S;   x = x + lr eta_l (1/m) sum_{all i} U_i    also without reports

    S are the `budget` available clients that were selected longest ago (ties at random). With budget = 0 it is `mifa`
    with store = "delta_over_lr". Each client keeps its update and sends the difference, as in the released code.

    Deviations: the released code's option of first rounds without a step, and its weights by data size, are left out.
    """

    budget: Natural = 0  # how many available clients train in a round; 0 = all. The authors have a tenth of all clients

    title: ClassVar[str] = "FedLaAvg: federated latest averaging"
    citation: ClassVar[str] = (
        "Yan, Niu, Ding, Zheng, Wu, Chen, Tang, Wu. Distributed Non-Convex Optimization with Sublinear Speedup under "
        "Intermittent Client Availability. arXiv 2002.07399, 2020; INFORMS Journal on Computing, ijoc.2022.0057."
    )

    def client_init(self, x0: Vector) -> Client:
        return Client(update=x0.new_zeros(x0.shape), last=-x0.new_ones((*x0.shape[:-1], 1)))

    def report(self, c: Client, d: Model, job: Job, done: Done, at: ClientView) -> tuple[Client, Model]:
        update = (done.end - job.start) / done.lr
        return Client(update, last=at.t), Model(update - c.update)

    def merge(self, s: Server, total: Model, count: float, at: ServerView) -> Update:
        mean = s.mean + total.x / at.m
        return Update(Server(s.x, mean), s.x, mean * at.local_lr)

    def seats(self) -> int:
        return self.budget

    def bid(self, c: Client, at: ClientView) -> Scalar:
        return c.last
