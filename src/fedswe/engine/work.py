"""Local training: plain SGD, for one client, or for the stacked clients of one or several runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from fedswe.core.algorithm import Done, Job
from fedswe.core.records import Vector
from fedswe.core.transfer import to_device
from fedswe.engine.local_step import descended, phase_end
from fedswe.engine.solvers import cuda_graph as captured
from fedswe.engine.solvers import fused_cnn as fused
from fedswe.errors import require
from fedswe.tasks.problem import Problem

Ids = npt.NDArray[np.int64]

_CHUNK = {"cpu": 2**21, "cuda": 2**25}  # input numbers at a time: the CPU's cache, a share of the GPU's memory


@dataclass(frozen=True)
class Local:
    """How a client trains."""

    steps: int = 10  # s
    batch_size: int = 32
    lr: float = 0.1  # eta_0
    schedule: Literal["inverse_sqrt", "constant"] = "inverse_sqrt"  # eta_l(t) = eta_0 / sqrt(t/10 + 1), or eta_0
    clip: float = 0.0  # L2 bound of each stochastic gradient; 0 = off
    precision: Literal["fp32", "tf32", "bf16"] = "fp32"  # of the arithmetic in training; weights stay in dtype

    def __post_init__(self) -> None:
        require(self.steps >= 1, f"steps must be at least 1, not {self.steps}")
        require(self.batch_size >= 1, f"batch_size must be at least 1, not {self.batch_size}")
        require(0 < self.lr < math.inf, f"lr must be positive, not {self.lr:g}")
        require(self.clip >= 0, f"clip must be 0 (off) or positive, not {self.clip:g}")

    def lr_at(self, t: int) -> float:
        """eta_l of round t."""
        return self.lr / math.sqrt(t / 10 + 1) if self.schedule == "inverse_sqrt" else self.lr


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


def train_one(work: Work) -> Done:
    """s steps of one client, by the plain definition of its gradient."""
    local, x = work.local, work.job.start
    lr, clip = local.lr_at(work.t), local.clip or math.inf
    for batch in work.batches:
        x = descended(x, work.problem.gradient(x, batch.client(0), local.precision), work.job.drift, lr, clip)
    return work.done(x)


def train_all(works: Sequence[Work]) -> list[Done]:
    """The local training of several runs; those that share network, data and batch shape are solved as one stack."""
    families: dict[object, list[int]] = {}
    for i, work in enumerate(works):
        local = work.local
        key = (work.problem.family(), local.steps, local.batch_size, local.precision)
        families.setdefault(key, []).append(i)
    done: dict[int, Done] = {}
    for members in families.values():
        stack = Stack([works[i] for i in members])
        ends = _trained(stack)
        sizes = [len(works[i].clients) for i in members]
        for i, end in zip(members, torch.split(ends, sizes), strict=True):
            done[i] = works[i].done(end)
    return [done[i] for i in range(len(works))]


def _trained(stack: Stack) -> Vector:
    if fused.suits(stack):
        return fused.train(stack)
    return captured.train(stack) if captured.suits(stack) else train_stacked(stack)


def rows_at_a_time(problem: Problem, batch_size: int) -> int:
    """How many clients to train together; 0 when it does not matter."""
    size = problem.row_size(batch_size)
    return max(1, _CHUNK[problem.start.device.type] // size) if size else 0


class Stack:
    """The clients of several runs one after another: N rows, each with its run's rate, clip and drift."""

    def __init__(self, works: Sequence[Work]) -> None:
        self.works, first = works, works[0]
        self.problem, self.local = first.problem, first.local  # what the runs share of these is the same for all
        sizes = [len(w.clients) for w in works]
        self.start = torch.cat([w.job.start.expand(n, -1) for w, n in zip(works, sizes, strict=True)])
        self.drift: Vector | None = None
        if any(w.job.drift is not None for w in works):
            drifts = [w.job.start.new_zeros(1) if w.job.drift is None else w.job.drift for w in works]
            self.drift = torch.cat([d.expand(n, self.start.shape[1]) for d, n in zip(drifts, sizes, strict=True)])
        self.lr = self._column([w.local.lr_at(w.t) for w in works], sizes)
        self.clip = self._column([w.local.clip or math.inf for w in works], sizes)
        self.clips = any(w.local.clip for w in works)

    @property
    def rows(self) -> int:
        return rows_at_a_time(self.problem, self.local.batch_size) or len(self.start)

    def _column(self, values: list[float], sizes: list[int]) -> torch.Tensor:
        """One number per run, repeated for its clients, [N, 1]."""
        return to_device(np.repeat(values, sizes)[:, None], self.start.device).to(self.start.dtype)

    def draw(self) -> Any:
        """The batches of all rows; each run draws its own."""
        drawn = [work.batches for work in self.works]
        return drawn[0] if len(drawn) == 1 else self.problem.joined(drawn)


def train_stacked(stack: Stack) -> Vector:
    """The end models, [N, d], of any problem on any device."""
    batches, ends = stack.draw(), []
    for at in range(0, len(stack.start), stack.rows):
        part = slice(at, at + stack.rows)
        drift, clip = None if stack.drift is None else stack.drift[part], stack.clip[part] if stack.clips else math.inf
        mine = batches if stack.rows >= len(stack.start) else batches[part]
        ends.append(
            phase_end(stack.problem, stack.start[part], mine, drift, stack.lr[part], clip, stack.local.precision)
        )
    return torch.cat(ends) if len(ends) > 1 else ends[0]
