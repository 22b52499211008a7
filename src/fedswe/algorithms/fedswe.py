"""FedSWE, and FedAWE as its case k = 0."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import torch

from fedswe.core.algorithm import Algorithm, ClientView, Done, Job, ServerView
from fedswe.core.records import Model, Nothing, Scalar, Vector, clipped
from fedswe.errors import require


@dataclass(frozen=True)
class Client:
    x: Vector  # x_i, the last model multicast to me
    last: Scalar  # tau_i, my last round of participation


@dataclass(frozen=True)
class Split:
    """The report when the server treats the two apart: start and echoed progress (two vectors up)."""

    start: Vector
    progress: Vector


@dataclass(frozen=True)
class FedSWE(Algorithm[Model, Client, Nothing, Model | Split, Model | Nothing]):
    """Clients train from their own last model and multiply their progress by the rounds they missed.

        x_i+ = x_i - lr (t - tau_i) G_i           adaptive innovation echoing   (Algorithm 1, line 12)
        x    = (sum_A x_i+ + k x) / (|A| + k)     global moving average         (line 14)
        x_i  = x for i in A only                  implicit gossiping            (lines 15-18)

    G_i is start minus end of the local training. k = 0 is FedAWE; the paper recommends k of the order of m.
    """

    k: float = 100.0  # copies of the server's own model in the average
    clip: float = 0.0  # released code: L2 bound of the averaged echoed progress; 0 = off (Algorithm 1)
    echo_cap: float = 0.0  # not in the paper: bound of the echo factor t - tau_i; 0 = off
    # Whom the echoed progress is averaged over: all |A| + k (Algorithm 1, line 14), or the |A| active clients, so that
    # the k copies steady the models without slowing them down. Not in the paper; the same where k = 0.
    progress_over: Literal["all", "active"] = "all"

    title: ClassVar[str] = "FedSWE: stabilised agile weight re-equalisation"
    citation: ClassVar[str] = (
        "Xiang, Ioannidis, Yeh, Joe-Wong, Su. Resilience Beyond Stationary Client Unavailability: "
        "Unlocking Efficient and Unbiased Federated Learning. JMLR 27, 2026."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.k < math.inf, f"k must be 0 or more, not {self.k:g}")
        require(0 <= self.clip < math.inf, f"clip must be 0 (off) or positive, not {self.clip:g}")
        require(self.echo_cap == 0 or self.echo_cap >= 1, "echo_cap must be 0 (off) or at least 1")

    def client_init(self, x0: Vector) -> Client:
        return Client(x0, last=-torch.ones_like(x0[..., :1]))

    def downlink(self, s: Model, at: ServerView) -> Nothing:
        return Nothing()  # the client starts from its own model: only the round index travels

    def plan(self, c: Client, d: Nothing, at: ClientView) -> Job:
        return Job(c.x)

    def report(self, c: Client, d: Nothing, job: Job, done: Done, at: ClientView) -> tuple[Client, Model | Split]:
        echo = at.t - c.last
        if self.echo_cap:
            echo = echo.clamp(max=self.echo_cap)
        progress = echo * (done.end - job.start)
        after = replace(c, last=at.t)
        if self.clip or self.progress_over == "active":
            return after, Split(job.start, progress)
        return after, Model(job.start + self.lr * progress)

    def merge(self, s: Model, total: Model | Split, count: int, at: ServerView) -> tuple[Model, Model | Nothing]:
        weight = count + self.k
        if weight == 0:
            return s, Nothing()  # k = 0 and nobody there: 0/0, the server keeps its model
        if isinstance(total, Split):
            # The released code (k = 0) clips the averaged echoed progress; these are its extensions to k > 0.
            progress = total.progress / (weight if self.progress_over == "all" else max(count, 1))
            step = self.lr * (clipped(progress, self.clip) if self.clip else progress)
            x = (total.start + self.k * s.x) / weight + step
        else:
            x = (total.x + self.k * s.x) / weight
        return Model(x), Model(x)

    def settle(self, c: Client, r: Model | Nothing, at: ClientView) -> Client:
        return replace(c, x=r.x) if isinstance(r, Model) else c

    def received(self, d: Nothing, r: Model | Nothing) -> Vector:
        assert isinstance(r, Model)  # whoever reported was answered
        return r.x

    def virtual_clients(self) -> float:
        return self.k


@dataclass(frozen=True)
class FedAWE(FedSWE):
    """FedSWE with k = 0: the average of the echoed models, without the server's own.

        x_i+ = x_i - lr (t - tau_i) G_i;   x = (1/|A|) sum_A x_i+;   x_i = x for i in A only

    When nobody is available the server keeps its model.
    """

    k: float = field(default=0.0, init=False)

    title: ClassVar[str] = "FedAWE: agile weight re-equalisation (FedSWE with k = 0)"
    citation: ClassVar[str] = (
        "Xiang, Ioannidis, Yeh, Joe-Wong, Su. Efficient Federated Learning against Heterogeneous and "
        "Non-stationary Client Unavailability. NeurIPS 2024."
    )
