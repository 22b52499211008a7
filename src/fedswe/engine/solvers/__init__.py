"""Solvers: ways to compute the local training of a stack of clients. The first in the list that suits a stack is used.

Another package adds its own through the entry point group `fedswe.solvers`; it comes before those of this package.
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
from fedswe.errors import FedsweError, require
from fedswe.tasks.problem import Problem


class Solver(Protocol):
    """A module or object with these functions."""

    def suits(self, problem: Problem, local: Local) -> bool:
        """Whether it can train clients of this problem in this way, with its chain, on its device."""

    def train(self, stack: Stack) -> Vector:
        """The end models, [N, d]."""

    def scores(self, problem: Problem, x: Vector) -> dict[str, float] | None:
        """The problem's scores of a model; None if it has no faster way than the next solver."""


# From the fastest to the one that trains everything. Imported when asked for: the first needs Triton.
_OWN = ("fedswe.engine.solvers.fused_cnn", "fedswe.engine.solvers.cuda_graph", "fedswe.engine.solvers.stacked")


@cache
def solvers() -> tuple[Solver, ...]:
    """All solvers in the order in which they are asked."""
    foreign = [_loaded(entry) for entry in entry_points(group="fedswe.solvers")]
    return (*foreign, *(cast(Solver, importlib.import_module(name)) for name in _OWN))


def _loaded(entry: EntryPoint) -> Solver:
    """A solver of another package."""
    try:
        solver = entry.load()
    except (Exception, SystemExit) as error:  # another package's module may raise anything
        raise FedsweError(
            f"solver {entry.name}: cannot import {entry.value} ({type(error).__name__}: {error})"
        ) from None
    missing = [name for name in ("suits", "train", "scores") if not callable(getattr(solver, name, None))]
    require(not missing, f"solver {entry.name}: {entry.value} has no function {', '.join(missing)}")
    return cast(Solver, solver)


def solver_for(problem: Problem, local: Local) -> Solver:
    return next(solver for solver in solvers() if solver.suits(problem, local))


def scores(problem: Problem, x: Vector) -> dict[str, float]:
    """The scores of a model, by the first solver that can compute them."""
    found = (solver.scores(problem, x) for solver in solvers())
    return next(scored for scored in found if scored is not None)


def train_all(works: Sequence[Work]) -> list[Done]:
    """The local training of several runs; works of one family are trained as one stack."""
    families: dict[object, list[int]] = {}
    for i, work in enumerate(works):
        families.setdefault(work.family, []).append(i)
    done: dict[int, Done] = {}
    for members in families.values():
        stack = Stack([works[i] for i in members])
        ends = solver_for(stack.problem, stack.local).train(stack)
        done |= dict(zip(members, stack.split(ends), strict=True))
    return [done[i] for i in range(len(works))]
