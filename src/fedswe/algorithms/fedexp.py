"""FedExP: FedAvg with a step that is extrapolated where the clients disagree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from fedswe.algorithms.fedavg import FedAvg
from fedswe.core.algorithm import ClientView, Done, Job, ServerView, Update
from fedswe.core.records import Model, Scalar


@dataclass(frozen=True)
class Progress(Model):
    square: Scalar  # the squared length of the progress


@dataclass(frozen=True)
class FedExP(FedAvg):
    """FedAvg over active clients, with a step that is longer where the clients disagree.

        D   = (1/|A|) sum_A D_i   with D_i = end_i - x
        x   = x + lr eta D
        eta = (1/|A|) sum_A |D_i|^2 / (2 |D|^2),   at least 1 and at most `longest`

    `longest` takes the place of the published epsilon. Near the end eta is large and the model moves around the
    optimum: serve an average over rounds, as published (that of the last two). It has FedAvg's bias.
    """

    longest: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 10.0  # bound of eta

    title: ClassVar[str] = "FedExP: extrapolated steps where clients disagree"
    citation: ClassVar[str] = (
        "Jhunjhunwala, Wang, Joshi. FedExP: Speeding up Federated Averaging via Extrapolation. ICLR 2023."
    )

    def report(self, c: Any, d: Any, job: Job, done: Done, at: ClientView) -> tuple[Any, Progress]:
        progress = done.end - job.start
        return c, Progress(progress, progress.norm(dim=-1, keepdim=True) ** 2)

    def merge(self, s: Any, total: Any, count: float, at: ServerView) -> Update:
        mean, tiny = total.x / (count or 1), 1e-30  # where no client moved
        eta = total.square / (count or 1) / (2 * mean.norm(dim=-1, keepdim=True) ** 2).clamp(min=tiny)
        return Update(s, s.x, eta.clamp(1.0, self.longest) * mean if count else None)
