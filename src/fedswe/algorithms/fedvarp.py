"""FedVARP: the last updates of absent clients as a control variate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from fedswe.core.algorithm import Algorithm, ClientView, Done, Job, ServerView, Update
from fedswe.core.records import Model, Vector


@dataclass(frozen=True)
class Client:
    y: Vector  # y_i, the client's last update


@dataclass(frozen=True)
class Server:
    x: Vector
    mean: Vector  # (1/m) sum of all latest updates, 0 for a client before its first


@dataclass(frozen=True)
class LatestUpdates(Algorithm):
    """Each client keeps its latest update and sends how it changed; the server keeps the mean of all."""

    def server_init(self, x0: Vector) -> Server:
        return Server(x0, mean=x0.new_zeros(x0.shape))


@dataclass(frozen=True)
class FedVARP(LatestUpdates):
    """Reduce the variance of partial participation with a memory of updates.

        v = mean(y) + (1/|A|) sum_A (end_i - x - y_i);   x = x + lr v;   y_i = end_i - x for i in A

    v uses the memory from before this round. Published with the y_i at the server, O(md); here each client
    keeps its own and sends the difference. Unbiased when all clients are equally available.

    Deviation: y_i is the plain difference of models. The paper of FedVARP divides it by the local rate and the number
    of steps, and multiplies v by those of the round. With constant rates and steps both are the same; with a decaying
    rate, an update remembered from a round with a larger rate keeps its size here.
    """

    empty: Literal["skip", "memory"] = "skip"  # without reports: no step (released code), or a step along mean(y)

    title: ClassVar[str] = "FedVARP: variance reduction for partial participation"
    citation: ClassVar[str] = (
        "Jhunjhunwala, Sharma, Nagarkatti, Joshi. FedVARP: Tackling the Variance Due to Partial Client "
        "Participation in Federated Learning. UAI 2022."
    )

    def client_init(self, x0: Vector) -> Client:
        return Client(y=x0.new_zeros(x0.shape))

    def report(self, c: Client, d: Model, job: Job, done: Done, at: ClientView) -> tuple[Client, Model]:
        y = done.end - job.start
        return Client(y), Model(y - c.y)

    def merge(self, s: Server, total: Model, count: float, at: ServerView) -> Update:
        if count == 0 and self.empty == "skip":
            return Update(s, s.x)
        v = s.mean + total.x / (count or 1)
        return Update(Server(s.x, s.mean + total.x / at.m), s.x, v)
