"""MIFA: the server steps with the last known update of every client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from fedswe.core.algorithm import Algorithm, ClientView, Done, Job, ServerView, Update
from fedswe.core.records import Model, Scalar, Vector


@dataclass(frozen=True)
class Client:
    update: Vector  # U_i, the client's last contribution
    seen: Scalar  # 1 once the client has contributed


@dataclass(frozen=True)
class Change:
    """How the client's entry changed: the server keeps the mean of all entries from such differences."""

    update: Vector
    first: Scalar  # 1 at the first contribution


@dataclass(frozen=True)
class Server:
    x: Vector
    mean: Vector  # (1/m) sum of all U_i
    seen: Scalar  # how many clients have contributed


@dataclass(frozen=True)
class MIFA(Algorithm):
    """Use the last update of every absent client.

        U_i = end_i - x for i in A;   x = x + lr (1/m) sum_{all i} U_i    every round, also without reports

    Published with the table of U_i at the server, O(md); here each client keeps its own entry and sends the
    difference, which is the same trajectory with O(d) at the server.
    """

    start: Literal["zero", "wait"] = "zero"  # the released code starts at once; Gu et al. wait for every client
    store: Literal["delta", "delta_over_lr"] = "delta"  # released code; Gu et al. divide by the local rate

    title: ClassVar[str] = "MIFA: memory-augmented impatient federated averaging"
    citation: ClassVar[str] = (
        "Gu, Huang, Zhang, Huang. Fast Federated Learning in the Presence of Arbitrary Device Unavailability. "
        "NeurIPS 2021."
    )

    @property
    def takes_weights(self) -> bool:
        return self.start == "zero"  # to wait is to count clients

    def server_init(self, x0: Vector) -> Server:
        return Server(x0, mean=x0.new_zeros(x0.shape), seen=x0.new_zeros((*x0.shape[:-1], 1)))

    def client_init(self, x0: Vector) -> Client:
        return Client(update=x0.new_zeros(x0.shape), seen=x0.new_zeros((*x0.shape[:-1], 1)))

    def report(self, c: Client, d: Model, job: Job, done: Done, at: ClientView) -> tuple[Client, Change]:
        update = done.end - job.start
        if self.store == "delta_over_lr":
            update = update / done.lr
        return Client(update, seen=c.seen.new_ones(c.seen.shape)), Change(update - c.update, first=1 - c.seen)

    def merge(self, s: Server, total: Change, count: float, at: ServerView) -> Update:
        mean, seen = s.mean + total.update / at.m, s.seen + total.first
        step = mean * at.local_lr if self.store == "delta_over_lr" else mean
        if self.start == "wait":
            step = step.where(seen >= at.m, 0.0)
        return Update(Server(s.x, mean, seen), s.x, step)
