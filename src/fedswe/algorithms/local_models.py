"""Algorithms whose clients train from the model that they received after their last report."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from fedswe.core.algorithm import Algorithm, ClientView, Job, ServerView
from fedswe.core.records import Model, Nothing


@dataclass(frozen=True)
class LocalModels(Algorithm):
    """An available client trains from its own model x (x^0 before its first report), and receives the new model."""

    def downlink(self, s: Any, at: ServerView) -> Any:
        return Nothing()  # before the work only the round index is sent

    def plan(self, c: Any, d: Any, at: ClientView) -> Job:
        return Job(c.x)

    def finish(self, s: Any, count: float, at: ServerView) -> tuple[Any, Any]:
        return s, Model(s.x)

    def settle(self, c: Any, r: Any, at: ClientView) -> Any:
        return replace(c, x=r.x)
