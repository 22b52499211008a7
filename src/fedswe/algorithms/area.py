"""AREA: the server's model is the mean over all clients of the model each ended its last training with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedswe.core.algorithm import Algorithm, ClientView, Done, Job, ServerView, Update
from fedswe.core.records import Model, Vector
from fedswe.errors import require


@dataclass(frozen=True)
class Client:
    sent: Vector  # y_i, the client's last local model; x^0 before the first


@dataclass(frozen=True)
class Area(Algorithm):
    """Replace the last local model of each client that reports in the mean over all clients.

        y_i+ = x + lr (end_i - x);   x = x + (1/m) sum_A (y_i+ - y_i);   y_i = y_i+ for i in A

    x is always (1/m) sum y_i over all clients. At a fixed point the progress of all clients from x adds up to 0: with
    one local step x is the optimum, however often each client comes. `mifa` uses an old update again in every round,
    AREA counts it once, so that it is slower. Without reports, x stays. With all clients always available it is FedAvg.

    m is fixed: the model of a client that left would stay in the mean and hold x back.

    Deviations: published for a server that does not wait; here a client trains from the newest model, in rounds, and
    the server's buffer of arrivals is the round. Published without a global rate (lr = 1). The rate is applied to y_i,
    because a rate at the server breaks the mean: with x = x + lr (1/m) sum_A (y_i+ - y_i), x is
    x^0 + lr (mean(y) - x^0), which goes back towards x^0 for lr < 1 and diverges for lr > 1. A chain does the same.
    """

    title: ClassVar[str] = "AREA: asynchronous exact averaging, in rounds"
    citation: ClassVar[str] = (
        "Iakovidou, Kim. Asynchronous Federated Stochastic Optimization for Heterogeneous Objectives Under Arbitrary "
        "Delays. arXiv 2405.10123, 2025."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require(not self.transforms, "area averages models and has no server step: leave out clip and chain")

    def client_init(self, x0: Vector) -> Client:
        return Client(sent=x0)

    def report(self, c: Client, d: Model, job: Job, done: Done, at: ClientView) -> tuple[Client, Model]:
        local = job.start + self.lr * (done.end - job.start)
        return Client(sent=local), Model(local - c.sent)

    def merge(self, s: Model, total: Model, count: float, at: ServerView) -> Update:
        return Update(s, s.x + total.x / at.m if count else s.x)
