"""FedSWE, and FedAWE as its case k = 0."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from fedswe.algorithms.local_models import LocalModels
from fedswe.core.algorithm import ClientView, Done, Job, ServerView, Update
from fedswe.core.records import Model, Nothing, Scalar, Vector
from fedswe.core.value import NonNegative


@dataclass(frozen=True)
class Client:
    x: Vector  # x_i, the last model multicast to this client
    last: Scalar  # tau_i, its last round of participation


@dataclass(frozen=True)
class Split:
    """The report when the server has a chain, which needs start and echoed progress apart: two vectors."""

    start: Vector
    progress: Vector


@dataclass(frozen=True)
class FedSWE(LocalModels):
    """Clients train from their own last model and multiply their progress by the rounds they missed.

        x_i+ = x_i - lr (t - tau_i) G_i           adaptive innovation echoing   (Algorithm 1)
        x    = (sum_A x_i+ + k x) / (|A| + k)     global moving average
        x_i  = x for i in A only                  implicit gossiping

    G_i is start minus end of the local training. k = 0 is FedAWE; the paper recommends k of the order of m, and has
    k = 100 for its 100 clients. With a chain (the released code clips) the step is the average of the echoed progress,
    and its base that of the starts.
    """

    k: NonNegative | None = None  # copies of the server's own model in the average; m, all clients, unless given

    home: ClassVar[Literal["client", "server"]] = "client"
    members_change: ClassVar[bool] = True
    title: ClassVar[str] = "FedSWE: stabilised agile weight re-equalisation"
    citation: ClassVar[str] = (
        "Xiang, Ioannidis, Yeh, Joe-Wong, Su. Resilience Beyond Stationary Client Unavailability: "
        "Unlocking Efficient and Unbiased Federated Learning. JMLR 27, 2026."
    )

    def client_init(self, x0: Vector) -> Client:
        return Client(x0, last=-x0.new_ones((*x0.shape[:-1], 1)))

    def report(self, c: Client, d: Nothing, job: Job, done: Done, at: ClientView) -> tuple[Client, Model | Split]:
        progress = (at.t - c.last) * (done.end - job.start)
        after = replace(c, last=at.t)
        if self.splits:
            return after, Split(job.start, progress)
        return after, Model(job.start + self.lr * progress)

    def merge(self, s: Model, total: Model | Split, count: float, at: ServerView) -> Update:
        k = self.copies(at.m)
        weight = count + k
        if weight == 0:
            return Update(s, s.x)  # k = 0 and no report: 0/0, the server keeps its model
        if isinstance(total, Model):
            return Update(s, (total.x + k * s.x) / weight)
        step = self.mean_progress(total.progress, count, k) if count else None
        return Update(s, (total.start + k * s.x) / weight, step)

    def copies(self, m: int) -> float:
        """k of m clients."""
        return m if self.k is None else self.k

    @property
    def splits(self) -> bool:
        """Whether start and progress are sent apart."""
        return bool(self.transforms)

    def mean_progress(self, total: Vector, count: float, k: float) -> Vector:
        return total / (count + k)


@dataclass(frozen=True)
class FedAWE(FedSWE):
    """FedSWE with k = 0: the average of the echoed models, without the server's own.

        x_i+ = x_i - lr (t - tau_i) G_i;   x = (1/|A|) sum_A x_i+;   x_i = x for i in A only

    Without reports the server keeps its model.
    """

    k: float = field(default=0.0, init=False)

    title: ClassVar[str] = "FedAWE: agile weight re-equalisation (FedSWE with k = 0)"
    citation: ClassVar[str] = (
        "Xiang, Ioannidis, Yeh, Joe-Wong, Su. Efficient Federated Learning against Heterogeneous and "
        "Non-stationary Client Unavailability. NeurIPS 2024."
    )
