"""FedAsync: mix the models that arrive into the server's, stale ones with less weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedswe.algorithms.staleness_weighted import StalenessWeighted, Version, VersionedModel
from fedswe.core.algorithm import ClientView, Done, Job, ServerView, Update
from fedswe.core.records import Scalar, Vector
from fedswe.core.value import Share


@dataclass(frozen=True)
class Mixed:
    x: Vector  # alpha_i end_i
    weight: Scalar  # alpha_i


@dataclass(frozen=True)
class FedAsync(StalenessWeighted):
    """Move the server's model towards the models that arrive.

        x = x + lr (1/|A|) sum_A alpha_i (end_i - x);   alpha_i = alpha w(u_i),  u_i: server steps since i's download

    Rounds instead of arrivals: an available client trains from the model it received after its last report, sends the
    end, and receives the new model. So absent clients run no code, and what arrives is as stale as the client was away.

    Deviations: models that arrive in the same round are averaged (the published server takes one after the other). The
    proximal term of the published local training (weight 0.005) is `local.chain=prox:0.005`. With all clients always
    available and alpha = 1 it is FedAvg.
    """

    alpha: Share = 0.6  # weight of a model that is not stale

    title: ClassVar[str] = "FedAsync: asynchronous federated optimisation, in rounds"
    citation: ClassVar[str] = "Xie, Koyejo, Gupta. Asynchronous Federated Optimization. OPT 2020 (arXiv 1903.03934)."

    def server_init(self, x0: Vector) -> VersionedModel:
        return self.client_init(x0)

    def report(
        self, c: VersionedModel, d: Version, job: Job, done: Done, at: ClientView
    ) -> tuple[VersionedModel, Mixed]:
        weight = self.alpha * self.weight(c, d)
        return c, Mixed(weight * done.end, weight)

    def merge(self, s: VersionedModel, total: Mixed, count: float, at: ServerView) -> Update:
        if count == 0:
            return Update(s, s.x)
        return Update(VersionedModel(s.x, s.version + 1), s.x, total.x - total.weight * s.x, over=count)
