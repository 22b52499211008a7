"""How far a client moved in local training, from its report.

A report is affine in the end of the training, with one factor for all coordinates. So the distance is that between the
report and the report of a client that did not move, over the factor, which one coordinate gives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from fedswe.core.algorithm import Done, Job
from fedswe.core.records import Model, Vector, parts
from fedswe.deploy.client_table import ClientTable
from fedswe.deploy.protocol import NEVER, RunProtocol
from fedswe.errors import require

_CHUNK = 1 << 17  # coordinates at a time: they stay in the cache, and no copy of a vector is made


class Moves:
    """The moves of one round."""

    def __init__(self, protocol: RunProtocol, clients: ClientTable, t: int, down: Any) -> None:
        self._protocol, self._clients, self._t, self._down = protocol, clients, t, down
        self._known: tuple[object, Any, float] = (None, None, 1.0)  # what the reports of clients of one base share

    def of(self, client: int, report: Any, start: Vector | None = None) -> float:
        """The L2 distance that the client moved in one round; not finite if the report or the distance is not.

        `start` is where the client's training started, if the caller knows it.
        """
        protocol, algorithm = self._protocol, self._protocol.algorithm
        if protocol.home == "server":
            if start is None:
                at = protocol.at_client(client, self._t)
                start = algorithm.plan(self._clients.state(client), self._down, at).start
            return distance(report, Model(start))
        unmoved, factor = self._unmoved(client)
        rounds = self._t - self._clients.merged(client) if algorithm.trains_while_absent else 1
        return distance(report, unmoved) / factor / rounds

    def _unmoved(self, client: int) -> tuple[Any, float]:
        """The report of a client that did not move, and how many times as far as the client its report moves."""
        protocol, algorithm = self._protocol, self._protocol.algorithm
        at, merged = protocol.at_client(client, self._t), self._clients.merged(client)
        key = (merged if parts(protocol.client) else NEVER, at.p.tolist() if algorithm.needs_probabilities else None)
        if self._known[0] != key:
            state, steps, lr = self._clients.state(client), protocol.local.steps, protocol.local.lr_at(self._t)
            job = algorithm.plan(state, self._down, at)
            unmoved = algorithm.report(state, self._down, job, Done(job.start, steps, lr), at)[1]
            state, down, job = _first(state, job), _first(self._down, job), Job(job.start[:1].double())
            length = 1 + float(job.start.abs().max())  # large enough not to vanish in the rounding
            reports = [
                algorithm.report(state, down, job, Done(end, steps, lr), at)[1]
                for end in (job.start, job.start + length)
            ]
            self._known = (key, unmoved, distance(*reports) / length)
        return self._known[1], self._known[2]


def _first(record: Any, job: Job) -> Any:
    """The record of a model with one coordinate."""
    return replace(record, **{name: v[:1] for name, v in parts(record).items() if v.shape == job.start.shape})


def distance(a: Any, b: Any) -> float:
    """L2 over all fields of two records; infinity where a square overflows. The chunks are added in float64."""
    others = parts(b)
    return math.sqrt(sum(_squares(value, others[name]) for name, value in parts(a).items()))


def _squares(a: torch.Tensor, b: torch.Tensor) -> float:
    x, y, total = a.detach().cpu().numpy(), b.detach().cpu().numpy(), 0.0
    require(x.shape == y.shape, f"vectors of {len(x)} and {len(y)} coordinates have no distance")
    buffer = np.empty(min(len(x), _CHUNK), np.result_type(x, y))
    with np.errstate(all="ignore"):  # whatever a client sends
        for begin in range(0, len(x), _CHUNK):  # numpy: torch takes twice as long to call, and for a new result
            part = slice(begin, begin + _CHUNK)
            change = np.subtract(x[part], y[part], out=buffer[: len(x) - begin])
            total += float(change.dot(change))
    return total


def is_finite(tensors: Mapping[str, torch.Tensor]) -> bool:
    """NaN and infinity remain in a sum, which is fast; a sum of finite numbers may overflow."""
    return all(math.isfinite(float(value.sum())) or bool(torch.isfinite(value).all()) for value in tensors.values())
