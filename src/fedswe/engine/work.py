"""The local training that runs ask for: of one client, or of the clients of several runs as one stack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fedswe.core.algorithm import Done, Job
from fedswe.core.local import Local
from fedswe.core.records import Vector
from fedswe.core.transfer import to_device
from fedswe.engine.local_step import phase_end
from fedswe.tasks.problem import Problem

Ids = npt.NDArray[np.int64]

_CHUNK = {"cpu": 2**21, "cuda": 2**25}  # input numbers at a time: the CPU's cache, a share of the GPU's memory


@dataclass(frozen=True)
class Work:
    """The local training that one run asks for in one round."""

    problem: Problem
    job: Job
    clients: Ids
    t: int
    local: Local

    @cached_property
    def batches(self) -> Any:
        """What its clients draw, drawn once."""
        return self.problem.draw(torch.as_tensor(self.clients), self.t, self.local.steps, self.local.batch_size)

    def done(self, end: Vector) -> Done:
        return Done(end, self.local.steps, self.local.lr_at(self.t))

    @property
    def family(self) -> object:
        """Works of one family differ in data order, start, rate and drift only: they are trained as one stack."""
        local = self.local
        return self.problem.family(), local.steps, local.batch_size, local.precision, local.transforms


def train_one(work: Work) -> Done:
    """s steps of one client, by the plain definition of its gradient."""
    problem, local = work.problem, work.local

    def gradient(x: Vector, batch: Any) -> Vector:
        return problem.gradient(x, batch.client(0), local.precision)

    job, lr = work.job, local.lr_at(work.t)
    return work.done(phase_end(gradient, job.start, work.batches, job.drift, lr, local.transforms))


def rows_at_a_time(problem: Problem, batch_size: int) -> int:
    """How many clients to train together; 0 when it does not matter."""
    size = problem.row_size(batch_size)
    return max(1, _CHUNK[problem.start.device.type] // size) if size else 0


class Stack:
    """The clients of several works of one family one after another: N rows, each with its run's rate and drift."""

    def __init__(self, works: Sequence[Work]) -> None:
        self.works, first = works, works[0]
        self.problem, self.local, self.chain = first.problem, first.local, first.local.transforms
        sizes = [len(w.clients) for w in works]
        self.start = torch.cat([w.job.start.expand(n, -1) for w, n in zip(works, sizes, strict=True)])
        self.drift: Vector | None = None
        if any(w.job.drift is not None for w in works):
            drifts = [w.job.start.new_zeros(1) if w.job.drift is None else w.job.drift for w in works]
            self.drift = torch.cat([d.expand(n, self.start.shape[1]) for d, n in zip(drifts, sizes, strict=True)])
        rates = np.repeat([w.local.lr_at(w.t) for w in works], sizes)[:, None]
        self.lr = to_device(rates, self.start.device).to(self.start.dtype)

    @property
    def rows(self) -> int:
        return rows_at_a_time(self.problem, self.local.batch_size) or len(self.start)

    @property
    def gradient(self) -> Callable[[Vector, Any], Vector]:
        """The stochastic gradients of n rows at x [n, d]."""
        problem, precision = self.problem, self.local.precision
        return lambda x, batch: problem.gradients(x, batch, precision)

    def draw(self) -> Any:
        """The batches of all rows; each run draws its own."""
        drawn = [work.batches for work in self.works]
        return drawn[0] if len(drawn) == 1 else self.problem.joined(drawn)

    def split(self, ends: Vector) -> list[Done]:
        """The end models [N, d] by work."""
        sizes = [len(work.clients) for work in self.works]
        return [work.done(end) for work, end in zip(self.works, torch.split(ends, sizes), strict=True)]
