"""FedPBC: postponed broadcast with clients that also train while they cannot be reached."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedswe.core.algorithm import Algorithm, ClientView, Done, Job, ServerView
from fedswe.core.records import Model, Nothing, Vector


@dataclass(frozen=True)
class FedPBC(Algorithm[Model, Model, Nothing, Model, Model | Nothing]):
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
    trains_while_absent: ClassVar[bool] = True

    def client_init(self, x0: Vector) -> Model:
        return Model(x0)

    def downlink(self, s: Model, at: ServerView) -> Nothing:
        return Nothing()

    def plan(self, c: Model, d: Nothing, at: ClientView) -> Job:
        return Job(c.x)

    def report(self, c: Model, d: Nothing, job: Job, done: Done, at: ClientView) -> tuple[Model, Model]:
        trained = Model(job.start + self.lr * (done.end - job.start))
        return trained, trained

    def merge(self, s: Model, total: Model, count: int, at: ServerView) -> tuple[Model, Model | Nothing]:
        if count == 0:
            return s, Nothing()
        x = total.x / count
        return Model(x), Model(x)

    def settle(self, c: Model, r: Model | Nothing, at: ClientView) -> Model:
        return r if isinstance(r, Model) else c

    def received(self, d: Nothing, r: Model | Nothing) -> Vector:
        assert isinstance(r, Model)  # whoever reported was answered
        return r.x
