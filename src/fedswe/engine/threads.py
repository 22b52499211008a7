"""How many threads a run computes with: one for small work, where threads wait for each other longer than they compute.

Measured on two busy cores: benchmarks/README.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from fedswe.engine.base import Engine
from fedswe.engine.batched import BatchedEngine
from fedswe.engine.work import rows_at_a_time
from fedswe.tasks.problem import Problem

# Products of weights and inputs in one step of all clients, from which on several threads pay. Threads that spin while
# they wait take the cores from each other when other processes use them too, and pay much later.
_LARGE = {"idle": 2 * 10**7, "spinning": 10**9}
_LOOK = 10  # rounds of availability examined
_LAYERS = ("linear", "conv1d", "conv2d", "conv3d")  # functions of an input and weights


def chosen(engines: Sequence[Engine], asked: int = 0) -> int:
    """The number of threads for runs that are trained as one stack: `asked`, unless it is 0.

    Without `asked` it is 1 or what torch has now. $OMP_NUM_THREADS is the user's choice too, and stays.
    """
    now = torch.get_num_threads()
    if asked or now == 1 or "OMP_NUM_THREADS" in os.environ or any(engine.on_gpu for engine in engines):
        return asked or now
    waiting = "idle" if os.environ.get("OMP_WAIT_POLICY", "").upper() == "PASSIVE" else "spinning"
    return now if _work(engines) >= _LARGE[waiting] else 1


def _work(engines: Sequence[Engine]) -> float:
    """Products in one step of all clients that are computed at once. Of the experiment only, not of the machine."""
    total = 0.0
    for engine in engines:
        problem, batch_size = engine.problem, engine.local.batch_size
        clients = _at_work(engine) if isinstance(engine, BatchedEngine) else 1.0
        clients = min(clients, rows_at_a_time(problem, batch_size) or clients)
        total += clients * max(batch_size * problem.start.numel(), _products(problem, batch_size))
    return total


def _products(problem: Problem, batch_size: int) -> int:
    """Products in the layers of one client's network, whose weights may be used at many places of an input."""
    counter = _Products()
    # Whatever is wrong with a user's own problem shows in the first round, with the place where it happened.
    with suppress(Exception), counter:
        for batch in problem.draw(torch.zeros(1, dtype=torch.int64), 0, 1, batch_size):
            problem.gradient(problem.start, batch.client(0))
            break
    return counter.total


class _Products(TorchFunctionMode):
    """Counts while layers are computed: every number that a layer gives is a sum over one row of its weights."""

    total = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") in _LAYERS and len(args) > 1:
            self.total += result.numel() * args[1][0].numel()
        return result


def _at_work(engine: Engine) -> float:
    """How many clients train in a round, on average."""
    if engine.algorithm.trains_while_absent:
        return float(engine.m)
    rounds = min(_LOOK, engine.schedule.rounds or _LOOK)
    available = sum(int(engine.schedule.sample(t).sum()) for t in range(rounds)) / rounds
    return min(available, engine.algorithm.seats() or available)


@contextmanager
def limited_to(threads: int) -> Iterator[None]:
    """Compute with so many threads; afterwards torch has the number that it had before."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
