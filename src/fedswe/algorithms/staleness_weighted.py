"""Asynchronous algorithms in rounds: a stale report has less weight.

An asynchronous client downloads a model, trains, and uploads what it found when it can; the server goes on. In rounds:
an available client trains from the model it received after its last report (x^0 before the first), sends what it found,
and receives the new model. The training is done in the round of the report, not while the client is away: it depends
only on its start and on the client's samples, so that the result is that of a client that trained before, and absent
clients run no code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from fedswe.algorithms.local_models import LocalModels
from fedswe.core.algorithm import ClientView, ServerView
from fedswe.core.records import Scalar, Vector
from fedswe.core.value import NonNegative


@dataclass(frozen=True)
class Version:
    version: Scalar  # how many steps the server has taken


@dataclass(frozen=True)
class VersionedModel:
    """A model with the number of steps that led to it: the reply, and what a client keeps of it."""

    x: Vector
    version: Scalar


@dataclass(frozen=True)
class StalenessWeighted(LocalModels):
    """What FedAsync and FedBuff share: a weight that falls with staleness, the server's steps since the download."""

    weighting: Literal["constant", "polynomial", "hinge"] = "polynomial"  # of staleness u: 1, (1 + u)^-power, or hinge
    power: NonNegative = 0.5  # of the polynomial
    slope: NonNegative = 10.0  # of the hinge: 1 up to u = grace, then 1 / (slope (u - grace) + 1)
    grace: NonNegative = 4.0  # of the hinge

    home: ClassVar[Literal["client", "server"]] = "client"
    members_change: ClassVar[bool] = True

    def client_init(self, x0: Vector) -> VersionedModel:
        return VersionedModel(x0, version=x0.new_zeros((*x0.shape[:-1], 1)))

    def downlink(self, s: Any, at: ServerView) -> Version:
        return Version(s.version)

    def finish(self, s: Any, count: float, at: ServerView) -> tuple[Any, VersionedModel]:
        return s, VersionedModel(s.x, s.version)

    def settle(self, c: VersionedModel, r: VersionedModel, at: ClientView) -> VersionedModel:
        return r

    def weight(self, c: VersionedModel, d: Version) -> Scalar:
        staleness = d.version - c.version
        if self.weighting == "polynomial":
            return (1 + staleness) ** -self.power
        if self.weighting == "hinge":
            return 1 / (self.slope * (staleness - self.grace).clamp(min=0) + 1)
        return 0 * staleness + 1
