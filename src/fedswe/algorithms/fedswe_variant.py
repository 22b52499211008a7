"""FedSWE with two changes that are not in the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from fedswe.algorithms.fedswe import Client, FedSWE, Split
from fedswe.core.algorithm import ClientView, Done, Job
from fedswe.core.records import Model, Nothing, Vector
from fedswe.errors import require


@dataclass(frozen=True)
class FedSWEVariant(FedSWE):
    """FedSWE with the progress averaged over the active clients alone, and optionally a bounded echo.

        x_i+ = x_i - lr min(t - tau_i, echo_cap) G_i
        x    = (sum_A x_i + k x) / (|A| + k) + (1/|A|) sum_A (x_i+ - x_i)      progress_over = "active"

    With progress_over = "active" the k copies of the server's model stabilise the models without slowing them down; it
    is a reading of the paper's k = 100 rows, and the same as FedSWE where k = 0.
    """

    echo_cap: float = 0.0  # bound of the echo factor t - tau_i; 0 = off
    progress_over: Literal["all", "active"] = "active"  # what the progress is averaged over: |A| + k clients, or |A|

    title: ClassVar[str] = "FedSWE with its progress averaged over active clients (not in the paper)"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.echo_cap == 0 or self.echo_cap >= 1, "echo_cap must be 0 (off) or at least 1")

    def report(self, c: Client, d: Nothing, job: Job, done: Done, at: ClientView) -> tuple[Client, Model | Split]:
        if self.echo_cap:
            c = replace(c, last=at.t - (at.t - c.last).clamp(max=self.echo_cap))
        return super().report(c, d, job, done, at)

    @property
    def splits(self) -> bool:
        return self.progress_over == "active" or super().splits

    def mean_progress(self, total: Vector, count: float, k: float) -> Vector:
        return super().mean_progress(total, count, 0 if self.progress_over == "active" else k)
