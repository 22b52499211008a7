"""How much GPU memory runs trained as one stack will need, estimated before they start."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from fedswe.availability.mask import Rows
from fedswe.core.algorithm import Algorithm
from fedswe.core.local import Local
from fedswe.engine.base import Engine, availability_of
from fedswe.engine.batched import BatchedEngine
from fedswe.engine.solvers import solver_for, stacked
from fedswe.tasks.problem import Setting
from fedswe.tasks.quadratic import Quadratic
from fedswe.tasks.supervised_problem import SupervisedProblem

_LOOK = 300  # rounds of availability examined: the number of distinct rounds of last report is stable by then


def estimate(engines: Sequence[Engine], rounds: int) -> int | None:
    """Bytes on the GPU at the peak, to about a fifth; None for a problem whose data are not kept on the device."""
    first, local = engines[0].problem, engines[0].local
    if not isinstance(first, SupervisedProblem) or first.data is None or first.start.device.type != "cuda":
        return None
    row: int = first.start.nbytes
    total: int = sum(x.nbytes for x in vars(first.data).values())
    at_work = 0
    for engine in engines:
        present = availability_of(engine.schedule, min(rounds, _LOOK, engine.schedule.rounds or rounds))
        at_work += int(present.sum(1).max())
        needed = distinct_rows(present) + private_columns(engine.algorithm) * engine.m
        total += (1 << max(0, needed - 1).bit_length()) * row  # the table of rows grows by doubling
    solver, *others = {id(s): s for s in (solver_for(e.problem, e.local) for e in engines)}.values()
    if others:  # several stacks: the general solver needs the most
        solver = stacked
    trained = solver.needs(first, local, at_work)
    return None if trained is None else total + trained + 3 * at_work * row  # start, end and report of all at work


def distinct_rows(present: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> int:
    """The largest number of distinct rounds of last report at any time."""
    last = np.full(present.shape[1], -1)
    most = 1
    for t, available in enumerate(present):
        last[available] = t
        most = max(most, len(np.unique(last)))
    return most + 1


def private_columns(algorithm: Algorithm) -> int:
    """How many vectors each client has to itself, found by running the algorithm on a toy problem."""
    m = 8
    toy = Quadratic(centers=np.eye(m).tolist()).build(Setting(0, torch.float32, torch.device("cpu")))
    engine = BatchedEngine(algorithm, toy, Rows(np.ones((2, m), dtype=bool), np.ones((1, m))), Local(steps=1), 0)
    engine.step()
    engine.step()
    return engine.rows.distinct() // m
