"""The local training that runs ask for: of one client, or of the clients of several runs as one stack."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fedswe.core import transforms
from fedswe.core.algorithm import Done, Job
from fedswe.core.local import Local
from fedswe.core.records import Vector, take, to_device
from fedswe.core.transforms import Transform
from fedswe.tasks.problem import Problem

Ids = npt.NDArray[np.int64]

_CHUNK = {"cpu": 2**21, "cuda": 2**25}  # input numbers at a time: the CPU's cache, a share of the GPU's memory


def phase_end(
    gradient: Callable[[Vector, Any], Vector],
    x: Vector,
    batches: Iterable[Any],
    drift: Vector | None,
    lr: float | torch.Tensor,
    chain: Sequence[Transform] = (),
    steps: Ids | None = None,
) -> Vector:
    """Where local training ends, one step per batch: x - lr (chain(gradient) + drift); for a stack, lr is [n, 1].

    In a stack with `steps`, falling, of each row, a row leaves it after its last step.
    """
    start, states, left = x, transforms.begin(chain, x), list[Vector]()
    for step, batch in enumerate(batches):
        if steps is not None and isinstance(lr, torch.Tensor):
            rows = slice(int((steps > step).sum()))
            if not rows.stop:
                break
            left.append(x[rows.stop :])
            x, start, lr, batch = x[rows], start[rows], lr[rows], batch[rows]
            drift, states = None if drift is None else drift[rows], tuple(take(state, rows) for state in states)
        v, states = transforms.apply(chain, gradient(x, batch), states, x, start)
        if drift is not None:  # after the chain: a control variate is not a stochastic gradient
            v = v + drift
        x = torch.addcmul(x, v, lr, value=-1) if isinstance(lr, torch.Tensor) else x - lr * v
    return torch.cat([x, *reversed(left)]) if left else x


@dataclass(frozen=True)
class Work:
    """The local training that one run asks for in one round."""

    problem: Problem
    job: Job
    clients: Ids
    t: int
    local: Local

    @cached_property
    def steps(self) -> Any:
        """How many steps its clients take: one number, or with local.epochs one for each."""
        return self.problem.steps(self.clients, self.local)

    @cached_property
    def batches(self) -> Any:
        """What its clients draw, drawn once."""
        return self.problem.draw(torch.as_tensor(self.clients), self.t, self.steps, self.local.batch_size)

    def done(self, end: Vector) -> Done:
        steps = self.steps
        if not isinstance(steps, int):
            steps = to_device(steps, end.device).to(end.dtype).reshape(*end.shape[:-1], 1)
        return Done(end, steps, self.local.lr_at(self.t))

    @property
    def family(self) -> object:
        """Works of one family differ in data order, start, rate and drift only: they are trained as one stack."""
        local = self.local
        steps = local.steps, local.epochs
        return self.problem.family(), steps, local.batch_size, local.precision, local.transforms


def train_one(work: Work) -> Done:
    """s steps of one client, by the plain definition of its gradient."""
    problem, local = work.problem, work.local

    def gradient(x: Vector, batch: Any) -> Vector:
        return problem.gradient(x, batch[0], local.precision)

    job, lr = work.job, local.lr_at(work.t)
    return work.done(phase_end(gradient, job.start, work.batches, job.drift, lr, local.transforms))


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
        """How many clients to train together."""
        size = self.problem.row_size(self.local.batch_size)
        return max(1, _CHUNK[self.start.device.type] // size) if size else len(self.start)

    @property
    def gradient(self) -> Callable[[Vector, Any], Vector]:
        """The stochastic gradients of n rows at x [n, d]."""
        problem, precision = self.problem, self.local.precision
        return lambda x, batch: problem.gradients(x, batch, precision)

    def draw(self) -> Any:
        """The batches of all rows; each run draws its own."""
        drawn = [work.batches for work in self.works]
        return drawn[0] if len(drawn) == 1 else self.problem.joined(drawn)

    def train(self) -> Vector:
        """The end models [N, d]: any problem, any chain, any device, in pieces that fit the cache."""
        if self.local.epochs:
            return self._train_epochs()
        batches, ends = self.draw(), []
        for at in range(0, len(self.start), self.rows):
            part = slice(at, at + self.rows)
            drift = None if self.drift is None else self.drift[part]
            mine = batches if self.rows >= len(self.start) else batches[part]
            ends.append(phase_end(self.gradient, self.start[part], mine, drift, self.lr[part], self.chain))
        return torch.cat(ends) if len(ends) > 1 else ends[0]

    def _train_epochs(self) -> Vector:
        """Those with the most steps first, so that those who still train are the first rows."""
        steps = np.concatenate([work.steps for work in self.works])
        order, ends, batches = np.argsort(-steps, kind="stable"), torch.empty_like(self.start), self.draw()
        for at in range(0, len(order), self.rows):
            rows = to_device(order[at : at + self.rows], self.start.device)
            mine, drift = steps[order[at : at + self.rows]], None if self.drift is None else self.drift[rows]
            ends[rows] = phase_end(
                self.gradient, self.start[rows], batches[rows], drift, self.lr[rows], self.chain, mine
            )
        return ends

    def split(self, ends: Vector) -> list[Done]:
        """The end models [N, d] by work."""
        sizes = [len(work.clients) for work in self.works]
        return [work.done(end) for work, end in zip(self.works, torch.split(ends, sizes), strict=True)]
