"""FedSWE whose echo is bounded by a quantile of the echoes of all clients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from pydantic import Field

from fedswe.algorithms.fedswe import Client, Split
from fedswe.algorithms.fedswe_variant import FedSWEVariant
from fedswe.core.algorithm import ClientView, Done, Job, ServerView, Update
from fedswe.core.records import Model, Nothing, Scalar, Vector
from fedswe.core.value import NonNegative


@dataclass(frozen=True)
class Server(Model):
    bound: Scalar  # b, of the echo factor


@dataclass(frozen=True)
class Bound(Nothing):
    bound: Scalar


@dataclass(frozen=True)
class CountedModel(Model):
    above: Scalar  # 1 if the client's echo was above the bound, else 0


@dataclass(frozen=True)
class CountedSplit(Split):
    above: Scalar


@dataclass(frozen=True)
class BoundedFedSWE(FedSWEVariant):
    """FedSWE with an echo that is at most a quantile of the echoes of all clients, and undiluted progress.

        x_i+ = x_i - lr min(t - tau_i, b) G_i
        x    = (sum_A x_i + k x) / (|A| + k) + (1/|A|) sum_A (x_i+ - x_i)      progress_over = "active"
        b    = max(1, b exp(bound_rate (share of A with t - tau_i > b  -  (1 - quantile))))

    b begins at 1 and settles where a share 1 - quantile of the reports has a larger echo: the server needs only the sum
    of indicators. While no echo is above the bound, the models are those of FedSWE (Algorithm 1), bit for bit, for
    progress_over = "all". An echo_cap holds too.
    """

    k: NonNegative = 10.0  # copies of the server's own model in the average
    quantile: Annotated[float, Field(gt=0, lt=1)] = 0.9  # of the echoes
    bound_rate: Annotated[float, Field(gt=0, le=10)] = 0.2  # of the logarithm of the bound, per round

    title: ClassVar[str] = "FedSWE with an echo bounded by a quantile (not in the paper)"
    citation: ClassVar[str] = (
        "This project. FedSWE: Xiang, Ioannidis, Yeh, Joe-Wong, Su, JMLR 2026. The quantile from a sum of indicators: "
        "Andrew, Thakkar, McMahan, Ramaswamy. Differentially Private Learning with Adaptive Clipping. NeurIPS 2021."
    )

    def server_init(self, x0: Vector) -> Server:
        return Server(x0, bound=x0.new_ones((*x0.shape[:-1], 1)))

    def downlink(self, s: Any, at: ServerView) -> Bound:
        return Bound(s.bound)

    def report(self, c: Client, d: Any, job: Job, done: Done, at: ClientView) -> tuple[Client, Model | Split]:
        echo = at.t - c.last
        above = echo.new_ones(echo.shape) * (echo > d.bound)
        after, sent = super().report(replace(c, last=at.t - echo.minimum(d.bound)), d, job, done, at)
        if isinstance(sent, Model):
            return after, CountedModel(sent.x, above)
        return after, CountedSplit(sent.start, sent.progress, above)

    def merge(self, s: Any, total: Any, count: float, at: ServerView) -> Update:
        if count:
            more = self.bound_rate * (total.above / count - (1 - self.quantile))
            s = replace(s, bound=(s.bound * more.exp()).clamp(min=1.0))
        return super().merge(s, total, count, at)
