"""The general solver: any problem, any chain, any device; a stack is trained in pieces that fit the cache."""

from __future__ import annotations

import torch

from fedswe.core.local import Local
from fedswe.core.records import Vector
from fedswe.engine.work import Stack, phase_end
from fedswe.tasks.problem import Problem


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
