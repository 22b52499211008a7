"""Solvers: faster ways to compute the local training of a stack of clients. The first that suits a stack is used.

Another package adds its own through the entry point group `fedswe.solvers`; it comes before those of this package,
which are for GPUs. What suits none is trained by the stack itself.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol, cast

from fedswe.core.algorithm import Done
from fedswe.core.local import Local
from fedswe.core.records import Vector
from fedswe.engine.work import Stack, Work
from fedswe.errors import mistakes_as, require
from fedswe.tasks.problem import Problem


class Solver(Protocol):
    """A module or object with these functions."""

    def suits(self, problem: Problem, local: Local) -> bool:
        """Whether it can train clients of this problem in this way, with its chain, on its device."""

    def train(self, stack: Stack) -> Vector:
        """The end models, [N, d]."""

    def scores(self, problem: Problem, x: Vector) -> dict[str, float] | None:
        """The problem's scores of a model; None if it has no faster way than the problem itself."""


_ON_GPU = ("fedswe.engine.solvers.fused_cnn.solver", "fedswe.engine.solvers.cuda_graph")  # the first needs Triton


@cache
def solvers(device: str) -> tuple[Solver, ...]:
    """The solvers for a kind of device, in the order in which they are asked."""
    foreign = [_loaded(entry) for entry in entry_points(group="fedswe.solvers")]
    own = [cast(Solver, importlib.import_module(name)) for name in _ON_GPU if device == "cuda"]
    return (*foreign, *own)


def _loaded(entry: EntryPoint) -> Solver:
    """A solver of another package."""
    with mistakes_as(f"solver {entry.name}: cannot import {entry.value}"):
        solver = entry.load()
    missing = [name for name in ("suits", "train", "scores") if not callable(getattr(solver, name, None))]
    require(not missing, f"solver {entry.name}: {entry.value} has no function {', '.join(missing)}")
    return cast(Solver, solver)


def scores(problem: Problem, x: Vector) -> dict[str, float]:
    """The scores of a model, by the first solver that can compute them."""
    for solver in solvers(x.device.type):
        if (found := solver.scores(problem, x)) is not None:
            return found
    return problem.evaluate(x)


def train_all(works: Sequence[Work]) -> list[Done]:
    """The local training of several runs; works of one family are trained as one stack."""
    families: dict[object, list[int]] = {}
    for i, work in enumerate(works):
        families.setdefault(work.family if len(works) > 1 else None, []).append(i)
    done: dict[int, Done] = {}
    for members in families.values():
        stack = Stack([works[i] for i in members])
        fitting = (s for s in solvers(stack.start.device.type) if s.suits(stack.problem, stack.local))
        solver = None if stack.local.epochs else next(fitting, None)  # they take as many steps with every client
        ends = solver.train(stack) if solver else stack.train()
        done |= dict(zip(members, stack.split(ends), strict=True))
    return [done[i] for i in range(len(works))]
