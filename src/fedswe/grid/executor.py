"""Where the stacks of a grid are run: an executor starts workers, each of which runs one stack after another."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

from fedswe.grid.cell import Cell
from fedswe.grid.store import Store

CHECKPOINT_SECONDS = 300.0


class WorkerDied(Exception):
    """The process of a worker ended before its stack did; its locks are released."""


class Worker(Protocol):
    def begin(self, stack: Sequence[Cell], store: Store) -> None:
        """Start to run a stack."""

    def receive(self) -> int | None:
        """The rounds of the stack completed so far; None once, when the stack has ended.

        Raises WorkerDied, and the FedsweError that ended the stack.
        """

    def stop(self) -> None:
        """Ask the worker to save its runs after the current round and to end the stack."""

    def close(self) -> None:
        """End the worker now."""


class Executor(Protocol):
    """Open it with `with`; all its workers end at the end of the context."""

    workers: int  # that run at the same time

    def start(self) -> Worker:
        """A worker without a stack: one that was released, or a new one."""

    def release(self, worker: Worker) -> None:
        """Keep a worker without a stack for the next start."""

    def wait(self, busy: Sequence[Worker], seconds: float) -> Sequence[Worker]:
        """The busy workers to receive from, after at most so many seconds."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...
