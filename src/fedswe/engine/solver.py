"""Local training: plain SGD, for one client or a stack of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar

import torch

from fedswe.core.algorithm import Done, Job
from fedswe.core.records import Vector
from fedswe.errors import require
from fedswe.tasks.problem import Problem

B = TypeVar("B")


@dataclass(frozen=True)
class Local:
    """How a client trains."""

    steps: int = 10  # s
    batch_size: int = 32
    lr: float = 0.1  # eta_0
    schedule: Literal["inverse_sqrt", "constant"] = "inverse_sqrt"  # eta_l(t) = eta_0 / sqrt(t/10 + 1), or eta_0
    clip: float = 0.0  # L2 bound of each stochastic gradient; 0 = off

    def __post_init__(self) -> None:
        require(self.steps >= 1, f"steps must be at least 1, not {self.steps}")
        require(self.batch_size >= 1, f"batch_size must be at least 1, not {self.batch_size}")
        require(self.lr > 0, f"lr must be positive, not {self.lr:g}")
        require(self.clip >= 0, f"clip must be 0 (off) or positive, not {self.clip:g}")

    def lr_at(self, t: int) -> float:
        """eta_l of round t."""
        return self.lr / math.sqrt(t / 10 + 1) if self.schedule == "inverse_sqrt" else self.lr


def train_one(problem: Problem, job: Job, client: int, t: int, local: Local) -> Done:
    """s steps of one client, by the plain definition of its gradient."""
    x = job.start
    for batch in problem.draw(torch.tensor([client]), t, local.steps, local.batch_size):
        x = _step(x, problem.gradient(x, _first(batch)), job, t, local)
    return Done(x, local.steps, local.lr_at(t))


def train_stacked(problem: Problem, job: Job, clients: torch.Tensor, t: int, local: Local) -> Done:
    """The same for n clients at once, models stacked as rows."""
    x = job.start.expand(len(clients), -1)
    for batch in problem.draw(clients, t, local.steps, local.batch_size):
        x = _step(x, problem.gradients(x, batch), job, t, local)
    return Done(x, local.steps, local.lr_at(t))


def _step(x: Vector, gradient: Vector, job: Job, t: int, local: Local) -> Vector:
    if local.clip:
        norm = gradient.norm(dim=-1, keepdim=True)
        gradient = gradient * (local.clip / norm.clamp(min=local.clip))
    if job.drift is not None:  # after the clip: a control variate is not a stochastic gradient
        gradient = gradient + job.drift
    return x - local.lr_at(t) * gradient


def _first(batch: B) -> B:
    """The only client of a stacked batch."""
    values: dict[str, Any] = {f.name: getattr(batch, f.name)[0] for f in fields(batch)}  # type: ignore[arg-type]
    return type(batch)(**values)
