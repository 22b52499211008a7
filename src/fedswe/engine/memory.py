"""How much GPU memory a company of runs will need, told before it starts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from fedswe.availability.mask import Rows
from fedswe.core.algorithm import AnyAlgorithm
from fedswe.engine.batched import BatchedEngine
from fedswe.engine.engine import Engine, availability_of
from fedswe.engine.solver import Local
from fedswe.tasks.labelled import LabelledProblem
from fedswe.tasks.problem import Setting
from fedswe.tasks.quadratic import Quadratic

_LOOK = 300  # rounds of availability looked at: by then the number of distinct last visits has settled
_FLOAT = 4


def estimate(engines: Sequence[Engine], rounds: int) -> int | None:
    """Bytes on the GPU at the peak, to about a fifth; None where the general path's activations are not modelled."""
    from fedswe.engine.fused import solver  # needs Triton

    first = engines[0].problem
    if not isinstance(first, LabelledProblem) or first.start.device.type != "cuda":
        return None
    if not all(solver.fits(e.problem, e.local) for e in engines):
        return None
    d, data = len(first.start), first.data
    total = sum(x.numel() * x.element_size() for x in vars(data).values())
    total += solver.buffers(first, engines[0].local)
    at_work = 0.0
    for engine in engines:
        present = availability_of(engine.schedule, min(rounds, _LOOK))
        at_work += float(present.sum(1).max())
        needed = distinct_rows(present) + private_columns(engine.algorithm) * engine.m
        total += 2 ** int(np.ceil(np.log2(needed))) * d * _FLOAT  # the table of rows grows by doubling
    return int(total + 3 * at_work * d * _FLOAT)  # start, end and report of everybody at work


def distinct_rows(present: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> int:
    """The most distinct rounds of last visit at any time."""
    last = np.full(present.shape[1], -1)
    most = 1
    for t, available in enumerate(present):
        last[available] = t
        most = max(most, len(np.unique(last)))
    return most + 1


def private_columns(algorithm: AnyAlgorithm) -> int:
    """How many vectors each client has to itself, found by running the algorithm on a toy problem."""
    m = 8
    toy = Quadratic(centers=np.eye(m).tolist()).build(Setting(0, torch.float32, torch.device("cpu")))
    engine = BatchedEngine(algorithm, toy, Rows(np.ones((2, m), dtype=bool), np.ones((1, m))), Local(steps=1), 0)
    engine.step()
    engine.step()
    return engine.rows.distinct() // m
