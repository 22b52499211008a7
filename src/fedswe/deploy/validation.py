"""What the server demands of a report before it may be merged: a reason in one word for every refusal."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from fedswe.core.algorithm import Done
from fedswe.core.records import parts
from fedswe.deploy.protocol import RunProtocol
from fedswe.errors import FedsweError

ENOUGH = 10  # merged moves before "auto" judges
FACTOR = 100.0  # how many times the longest merged move "auto" allows


class Rejection(FedsweError):
    """A message that is not used; `reason` is one of a few words that the ledger counts."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def demand(condition: object, reason: str, message: str) -> None:
    if not condition:
        raise Rejection(reason, message)


def demand_finite(report: Any) -> None:
    for name, value in parts(report).items():
        demand(torch.isfinite(value).all(), "not finite", f"{name} holds NaN or infinity")


def moved(protocol: RunProtocol, state: Any, down: Any, report: Any, client: int, t: int) -> float:
    """How far the client says it moved in local training, whatever the algorithm makes of a move.

    Reports are affine in the end of the training: the report of no move and that of a known one give the scale.
    """
    algorithm, at = protocol.algorithm, protocol.at_client(client, t)
    job = algorithm.plan(state, down, at)
    job = replace(job, start=job.start.double())

    def reported(end: torch.Tensor) -> Any:
        done = Done(end, protocol.local.steps, protocol.local.lr_at(t))
        return algorithm.report(state, down, job, done, at)[1]

    nowhere = reported(job.start)
    step = 1 + float(job.start.abs().max())  # so long that it does not vanish in the rounding
    scale = distance(reported(job.start + step), nowhere) / (step * math.sqrt(job.start.numel()))
    return distance(report, nowhere) / scale


def distance(a: Any, b: Any) -> float:
    """L2 over all fields, in float64 so that squares of large numbers do not overflow."""
    there = parts(b)
    return math.hypot(*(float((v.double() - there[n].double()).norm()) for n, v in parts(a).items()))


def bound(max_norm: float | str, moves: int, farthest: float) -> float:
    """How far a client may move: as configured, or on "auto" FACTOR times the farthest once ENOUGH were merged."""
    if isinstance(max_norm, str):
        return FACTOR * farthest if moves >= ENOUGH and farthest > 0 else math.inf
    return max_norm or math.inf
