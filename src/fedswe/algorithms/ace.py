"""ACE: at every arrival, step along the latest update of all clients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from fedswe.algorithms.fedvarp import LatestUpdates, Server
from fedswe.algorithms.local_models import LocalModels
from fedswe.core.algorithm import ClientView, Done, Job, ServerView, Update
from fedswe.core.records import Model, Nothing, Vector


@dataclass(frozen=True)
class Client:
    x: Vector  # the model received after the last report
    update: Vector  # the client's latest update; 0 before the first


@dataclass(frozen=True)
class Cached(LatestUpdates, LocalModels):
    """What ACE and CA2FL share: each client keeps its own model and its latest update."""

    def client_init(self, x0: Vector) -> Client:
        return Client(x0, update=x0.new_zeros(x0.shape))

    def report(self, c: Client, d: Nothing, job: Job, done: Done, at: ClientView) -> tuple[Client, Model]:
        update = done.end - job.start
        return replace(c, update=update), Model(update - c.update)


@dataclass(frozen=True)
class ACE(Cached):
    """Use the latest update of every client in each step, as MIFA does, with clients that train asynchronously.

        U_i = end_i - start_i for i in A;   x = x + lr (1/m) sum_{all i} U_i;   start_i = x for i in A

    Rounds instead of arrivals: an available client trains from start_i, the model it received after its last report
    (x^0 before the first), sends the change of its update, and receives the new model. So absent clients run no code.
    `mifa` differs in that clients train from the newest model, and that it steps without reports, too. With all clients
    always available it is FedAvg. Without reports, x stays.

    Deviations: one step per round instead of one per arrival, any number of local steps instead of one gradient, and
    the updates kept at the clients instead of at the server, O(md). Clients that never reported count as 0 in the mean,
    as in `mifa`; a public implementation divides by the number of clients seen so far.
    """

    title: ClassVar[str] = "ACE: all-client engagement, in rounds"
    citation: ClassVar[str] = (
        "Chang, Yao, Krishnamurthy, Shelton, Chakraborty, Swami, Oymak, Roy-Chowdhury. Mitigating Participation "
        "Imbalance Bias in Asynchronous Federated Learning. arXiv 2511.19066, 2025."
    )

    def merge(self, s: Server, total: Model, count: float, at: ServerView) -> Update:
        if count == 0:
            return Update(s, s.x)
        mean = s.mean + total.x / at.m
        return Update(Server(s.x, mean), s.x, mean)
