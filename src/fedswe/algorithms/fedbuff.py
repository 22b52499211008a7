"""FedBuff: collect late progress in a buffer, and step when it is full."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from fedswe.algorithms.staleness_weighted import StalenessWeighted, Version, VersionedModel
from fedswe.core.algorithm import ClientView, Done, Job, ServerView, Update
from fedswe.core.records import Model, Scalar, Vector
from fedswe.core.value import Count


@dataclass(frozen=True)
class Server:
    x: Vector
    version: Scalar  # how many steps were taken
    held: Vector  # the sum of the progress in the buffer
    number: Scalar  # of reports in the buffer


@dataclass(frozen=True)
class FedBuff(StalenessWeighted):
    """Average at least `buffer` reports of progress, stale ones with less weight.

        x = x + lr (1/|B|) sum_B w(u_i) (end_i - start_i)    once |B| >= buffer, B: the reports since the last step
        start_i: the model i received after its last report;   u_i: server steps from then to this report

    Rounds instead of arrivals: an available client trains from the model it received after its last report, sends its
    progress, and receives the new model. So absent clients run no code, and what arrives is as stale as the client was
    away. With all clients always available and buffer <= m it is FedAvg.

    Deviation: all reports of a round enter the buffer at once, so a step may average more than `buffer` of them.
    """

    buffer: Count = 10  # K, reports per step at least; 1 = a step in every round with a report

    title: ClassVar[str] = "FedBuff: buffered asynchronous aggregation, in rounds"
    citation: ClassVar[str] = (
        "Nguyen, Malik, Zhan, Yousefpour, Rabbat, Malek, Huba. Federated Learning with Buffered Asynchronous "
        "Aggregation. AISTATS 2022."
    )

    @property
    def takes_weights(self) -> bool:
        return False  # the buffer counts reports

    def server_init(self, x0: Vector) -> Server:
        none = x0.new_zeros((*x0.shape[:-1], 1))
        return Server(x0, version=none, held=x0.new_zeros(x0.shape), number=none)

    def report(
        self, c: VersionedModel, d: Version, job: Job, done: Done, at: ClientView
    ) -> tuple[VersionedModel, Model]:
        return c, Model(self.weight(c, d) * (done.end - job.start))

    def merge(self, s: Server, total: Model, count: float, at: ServerView) -> Update:
        held, number = s.held + total.x, s.number + count
        # A number of Python, for which a GPU must finish: a chain is applied only in rounds with a step.
        if count == 0 or not bool(number >= self.buffer):
            return Update(replace(s, held=held, number=number), s.x)
        after = Server(s.x, s.version + 1, held=held.new_zeros(held.shape), number=0 * number)
        return Update(after, s.x, held / number)
