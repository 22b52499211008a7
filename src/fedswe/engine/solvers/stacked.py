"""The general solver: any problem, any chain, any device; a stack is trained in pieces that fit the cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fedswe.core.local import Local
from fedswe.core.records import Vector
from fedswe.engine.local_step import phase_end
from fedswe.engine.work import Stack, rows_at_a_time
from fedswe.tasks.problem import Problem
from fedswe.tasks.supervised_problem import SupervisedProblem

_TRIED = 2, 6  # clients


def suits(problem: Problem, local: Local) -> bool:
    return True


def train(stack: Stack) -> Vector:
    batches, ends = stack.draw(), []
    for at in range(0, len(stack.start), stack.rows):
        part = slice(at, at + stack.rows)
        drift = None if stack.drift is None else stack.drift[part]
        mine = batches if stack.rows >= len(stack.start) else batches[part]
        ends.append(phase_end(stack.gradient, stack.start[part], mine, drift, stack.lr[part], stack.chain))
    return torch.cat(ends) if len(ends) > 1 else ends[0]


def scores(problem: Problem, x: Vector) -> dict[str, float] | None:
    return problem.evaluate(x)


def needs(problem: Problem, local: Local, clients: int) -> int | None:
    """Found by trying a step with few clients on a GPU.

    What a network keeps of its inputs is known only to the libraries, but it grows in proportion to the clients.
    """
    if problem.start.device.type != "cuda" or not isinstance(problem, SupervisedProblem) or problem.data is None:
        return None
    at_a_time = min(clients, rows_at_a_time(problem, local.batch_size) or clients)
    few, more = (_peak_of_a_step(problem, local, n) for n in _TRIED)
    grows = max(0.0, (more - few) / (_TRIED[1] - _TRIED[0]))
    return int(few + grows * (at_a_time - _TRIED[0]))


def copies_of_the_largest(problem: SupervisedProblem, clients: int) -> torch.Tensor:
    """The client with the most samples, `clients` times, as separate elements: an expanded tensor cannot be pinned."""
    return torch.full((clients,), int(problem.samples.sizes(np.arange(problem.m)).argmax()))


def _peak_of_a_step(problem: SupervisedProblem, local: Local, clients: int) -> int:
    """Measured for so many copies of the client with the most samples."""
    largest = copies_of_the_largest(problem, clients)
    start, peak = problem.start.expand(clients, -1), 0

    def gradient(x: Vector, batch: Any) -> Vector:
        return problem.gradients(x, batch, local.precision)

    for _ in range(2):  # the first time, libraries allocate what they keep
        batches = problem.draw(largest, 0, 1, local.batch_size)
        lr = start.new_zeros(clients, 1)
        torch.cuda.reset_peak_memory_stats(start.device)
        before = torch.cuda.memory_allocated(start.device)
        phase_end(gradient, start, batches, None, lr, local.transforms)
        peak = torch.cuda.max_memory_allocated(start.device) - before
    return peak
