"""MimiC: correct each update by the difference of the server's and the client's last one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedswe.core.algorithm import Algorithm, ClientView, Done, Job, ServerView, Update
from fedswe.core.records import Model, Vector


@dataclass(frozen=True)
class Client:
    c: Vector  # c_i, the client's correction; between report and reply, its update of this round


@dataclass(frozen=True)
class Server:
    x: Vector
    v: Vector  # the latest mean of corrected updates


@dataclass(frozen=True)
class Mean:
    v: Vector  # the mean of corrected updates, which a client needs for its correction


@dataclass(frozen=True)
class MimiC(Algorithm):
    """Let each update mimic that of all clients.

        v = (1/|A|) sum_A (end_i - x + c_i);   x = x + lr v;   c_i = v - (end_i - x) for i in A

    c_i = 0 before the first report. With all clients always available it is FedAvg. Without reports, x stays.

    Deviations: published with the c_i at the server, O(md); here each client keeps its own, for which it is sent v.
    Updates are differences of models: with a decaying rate, a correction from a round with a larger one keeps its size.
    """

    title: ClassVar[str] = "MimiC: mimicking the central update"
    citation: ClassVar[str] = (
        "Sun, Mao, Zhang. MimiC: Combating Client Dropouts in Federated Learning by Mimicking Central Updates. IEEE "
        "Transactions on Mobile Computing 2024."
    )

    def server_init(self, x0: Vector) -> Server:
        return Server(x0, v=x0.new_zeros(x0.shape))

    def client_init(self, x0: Vector) -> Client:
        return Client(c=x0.new_zeros(x0.shape))

    def report(self, c: Client, d: Model, job: Job, done: Done, at: ClientView) -> tuple[Client, Model]:
        update = done.end - job.start
        return Client(update), Model(update + c.c)

    def merge(self, s: Server, total: Model, count: float, at: ServerView) -> Update:
        if count == 0:
            return Update(s, s.x)
        v = total.x / count
        return Update(Server(s.x, v), s.x, v)

    def finish(self, s: Server, count: float, at: ServerView) -> tuple[Server, Mean]:
        return s, Mean(s.v)

    def settle(self, c: Client, r: Mean, at: ClientView) -> Client:
        return Client(r.v - c.c)
