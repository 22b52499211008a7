"""FedPBC: postponed broadcast with clients that also train while they cannot be reached."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from fedswe.algorithms.local_models import LocalModels
from fedswe.core.algorithm import ClientView, Done, Job, ServerView, Update
from fedswe.core.records import Model, Nothing, Vector
from fedswe.errors import require


@dataclass(frozen=True)
class FedPBC(LocalModels):
    """Every client trains in every round from its own model; only the available ones are averaged and answered.

        x_i = x_i + lr (end_i - x_i) for all i;   x = (1/|A|) sum_A x_i;   x_i = x for i in A

    TRAINS WHILE UNAVAILABLE: it models failing links, not absent clients, and is the one method here that
    breaks the rule that an absent client computes nothing. Compare it with that in mind.
    """

    title: ClassVar[str] = "FedPBC: postponed broadcast (trains while unavailable)"
    citation: ClassVar[str] = (
        "Xiang, Ioannidis, Yeh, Joe-Wong, Su. Towards Bias Correction of FedAvg over Nonuniform and "
        "Time-Varying Communications. CDC 2023."
    )
    home: ClassVar[Literal["client", "server"]] = "client"
    members_change: ClassVar[bool] = True
    trains_while_absent: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require(not self.transforms, "fedpbc averages models and has no server step: leave out clip and chain")

    def client_init(self, x0: Vector) -> Model:
        return Model(x0)

    def report(self, c: Model, d: Nothing, job: Job, done: Done, at: ClientView) -> tuple[Model, Model]:
        trained = Model(job.start + self.lr * (done.end - job.start))
        return trained, trained

    def merge(self, s: Model, total: Model, count: float, at: ServerView) -> Update:
        return Update(s, total.x / count if count else s.x)
