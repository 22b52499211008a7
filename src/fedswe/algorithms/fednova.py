"""FedNova: average directions, so that clients with many local steps have no more weight than others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from fedswe.core.algorithm import Algorithm, ClientView, Done, Job, ServerView, Update
from fedswe.core.records import Scalar, Vector


@dataclass(frozen=True)
class Normalised:
    direction: Vector  # the progress divided by the steps
    steps: Scalar


@dataclass(frozen=True)
class FedNova(Algorithm):
    """Divide the progress by the number of local steps, average, and multiply by the mean number of steps.

        x = x + lr s (1/|A|) sum_A (end_i - x) / s_i;   s = (1/|A|) sum_A s_i

    Where clients take different numbers of steps s_i (local epochs), FedAvg weighs them by s_i and converges to another
    point than the optimum; FedNova does not. The means are weighted where clients have weights. It is the published
    rule for plain local SGD, with its effective number of steps. With equal steps it is FedAvg. Without reports, x
    stays.
    """

    home: ClassVar[Literal["client", "server"]] = "client"  # there is no client state
    members_change: ClassVar[bool] = True
    needs_plain_sgd: ClassVar[bool] = True  # with momentum the steps of a client do not count alike
    title: ClassVar[str] = "FedNova: normalised averaging of different numbers of local steps"
    citation: ClassVar[str] = (
        "Wang, Liu, Liang, Joshi, Poor. Tackling the Objective Inconsistency Problem in Heterogeneous Federated "
        "Optimization. NeurIPS 2020."
    )

    def report(self, c: Any, d: Any, job: Job, done: Done, at: ClientView) -> tuple[Any, Normalised]:
        steps = done.end.new_ones((*done.end.shape[:-1], 1)) * done.steps
        return c, Normalised((done.end - job.start) / steps, steps)

    def merge(self, s: Any, total: Normalised, count: float, at: ServerView) -> Update:
        return Update(s, s.x, total.steps / count * total.direction if count else None, over=count or 1)
