"""How much GPU memory a company of runs will need, told before it starts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from fedswe.availability.mask import Rows
from fedswe.core.algorithm import AnyAlgorithm
from fedswe.engine.base import Engine, availability_of
from fedswe.engine.batched import BatchedEngine
from fedswe.engine.local_step import phase_end
from fedswe.engine.work import Local, rows_at_a_time
from fedswe.tasks.classification_problem import ClassificationProblem
from fedswe.tasks.problem import Setting
from fedswe.tasks.quadratic import Quadratic

_LOOK = 300  # rounds of availability looked at: by then the number of distinct last visits has settled
_TRIED = 2, 6  # clients


def estimate(engines: Sequence[Engine], rounds: int) -> int | None:
    """Bytes on the GPU at the peak, to about a fifth; None for a problem whose data are not kept on the device."""
    from fedswe.engine.solvers.fused_cnn import forward, solver  # need Triton

    first, local = engines[0].problem, engines[0].local
    if not isinstance(first, ClassificationProblem) or first.start.device.type != "cuda":
        return None
    row: int = first.start.nbytes
    total: int = sum(x.nbytes for x in vars(first.data).values())
    at_work = 0
    for engine in engines:
        present = availability_of(engine.schedule, min(rounds, _LOOK))
        at_work += int(present.sum(1).max())
        needed = distinct_rows(present) + private_columns(engine.algorithm) * engine.m
        total += _doubled(needed) * row  # the table of rows grows by doubling
    fits = all(solver.fits(e.problem, e.local) for e in engines)
    total += solver.needs(first, local, at_work) + forward.needs(first) if fits else general(first, local, at_work)
    return total + 3 * at_work * row  # start, end and report of everybody at work


def general(problem: ClassificationProblem, local: Local, clients: int) -> int:
    """Bytes of a local phase outside the fused kernels, found by trying a step with few clients.

    What a network keeps of its inputs is known only to the libraries, but it grows in proportion to the clients.
    """
    at_a_time = min(clients, rows_at_a_time(problem, local.batch_size) or clients)
    few, more = (_peak_of_a_step(problem, local, n) for n in _TRIED)
    grows = max(0.0, (more - few) / (_TRIED[1] - _TRIED[0]))
    held = _doubled(at_a_time) * problem.start.nbytes  # what a captured phase reads and writes
    return int(few + grows * (at_a_time - _TRIED[0]) + held)


def _peak_of_a_step(problem: ClassificationProblem, local: Local, clients: int) -> int:
    """Measured for so many copies of the client with the most samples."""
    biggest = copies_of_the_biggest(problem, clients)
    start, peak = problem.start.expand(clients, -1), 0
    for _ in range(2):  # the first time, libraries allocate what they keep
        batches = problem.draw(biggest, 0, 1, local.batch_size)
        lr = start.new_zeros(clients, 1)
        torch.cuda.reset_peak_memory_stats(start.device)
        before = torch.cuda.memory_allocated(start.device)
        phase_end(problem, start, batches, None, lr, local.clip or math.inf, local.precision)
        peak = torch.cuda.max_memory_allocated(start.device) - before
    return peak


def copies_of_the_biggest(problem: ClassificationProblem, clients: int) -> torch.Tensor:
    """The client with the most samples, so many times, each in a place of its own: an expanded one cannot be pinned."""
    return torch.full((clients,), int(problem.sizes.argmax()))


def _doubled(rows: int) -> int:
    """The room of something that grows by doubling."""
    return 1 << max(0, rows - 1).bit_length()


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
