"""Run a grid: divide its unfinished cells into stacks, give them to workers, replace workers that die.

Killed, a grid continues from its last checkpoints when the same command is given again. Asked to stop (Ctrl-C, or the
SIGTERM of a scheduler), it writes checkpoints after the round it is in.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from fedswe.errors import FedsweError, require
from fedswe.grid.cell import Cell
from fedswe.grid.executor import Executor, Worker, WorkerDied
from fedswe.grid.stack import divide, rounds_of
from fedswe.grid.store import Store
from fedswe.tracking.tracker import check_trackers

_DEATHS = 5  # of workers on one stack before the command gives up
_PATIENCE = 60.0  # seconds until the claims of a dead worker have ended, on a network file system too
_IDLE_PASSES = 10  # in which no cell was run, although no process has claimed one, before the command gives up

Watch = Callable[[int, int], None]  # rounds run, rounds to run


def executor(on: str = "local", jobs: int = 0, device: str = "cpu") -> Executor:
    """The executor called `on`: local, ray, or ray:ADDRESS.

    `jobs` is the number of workers; 0 stands for one per core, or one per GPU.
    """
    require(jobs >= 0, f"--jobs must be 0 (one per core, one for a GPU) or positive, not {jobs}")
    name, _, address = on.partition(":")
    if name == "local" and not address:
        from fedswe.grid.local import InProcess, LocalProcesses, count

        workers = count(device, jobs)
        return LocalProcesses(workers) if workers > 1 else InProcess()
    if name == "ray":
        from fedswe.grid.ray import RayWorkers

        return RayWorkers(address, jobs, device)
    raise FedsweError(f"--on must be local, ray or ray:ADDRESS, not {on!r}")


def run_cells(cells: Sequence[Cell], store: Store, executor: Executor, watch: Watch | None = None) -> None:
    """Run every cell that is neither finished nor claimed by another command, and those that others give up meanwhile.

    Raises KeyboardInterrupt after it was asked to stop and has saved everything.
    """
    check_trackers(list(dict.fromkeys(name for cell in cells for name in cell.experiment.track)))
    store.plan(cells)
    idle = 0
    with _Signals() as signals:
        while left := _unclaimed(cells, store):
            with store.claim(left[0]):
                pass  # on a file system without locks this warns, once and not in every worker
            died = _Pass(divide(left, executor.workers), store, executor, watch, signals).run()
            end = time.monotonic() + _PATIENCE
            while any(not store.finished(cell) for cell in died) and store.running(died) and time.monotonic() < end:
                if signals.stop:
                    raise KeyboardInterrupt
                time.sleep(0.2)
            idle = 0 if died or any(store.finished(cell) for cell in left) else idle + 1
            require(
                idle < _IDLE_PASSES,
                f"{left[0].name} could not be claimed, though no process has it (cells left: {len(left)}): "
                f"check the locks of the file system of {store.path}, or choose another --out",
            )
            time.sleep(0.1 if idle else 0.0)  # another command may have tried at the same moment


def _unclaimed(cells: Sequence[Cell], store: Store) -> list[Cell]:
    left = [cell for cell in {cell.name: cell for cell in cells}.values() if not store.finished(cell)]
    claimed = {cell.name for cell in store.running(left)}
    return [cell for cell in left if cell.name not in claimed]


class _Signals:
    """The first SIGINT or SIGTERM asks to stop; one that comes more than a second later has its usual effect.

    Not earlier: `timeout` sends its signal to the command and to the command's group, and so twice.
    """

    def __init__(self) -> None:
        self._asked = math.inf
        self._before: dict[int, Any] = {}

    @property
    def stop(self) -> bool:
        return self._asked < math.inf

    def _ask(self, number: int, _: object) -> None:
        if time.monotonic() > self._asked + 1.0:
            signal.signal(number, self._before[number])
            signal.raise_signal(number)
        self._asked = min(self._asked, time.monotonic())

    def __enter__(self) -> _Signals:
        if threading.current_thread() is threading.main_thread():  # others may not handle signals
            self._before = {n: signal.signal(n, self._ask) for n in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


class _Pass:
    """Runs a list of stacks once."""

    def __init__(
        self, stacks: list[list[Cell]], store: Store, executor: Executor, watch: Watch | None, signals: _Signals
    ) -> None:
        self._stacks, self._store, self._executor, self._watch, self._signals = stacks, store, executor, watch, signals
        self._waiting = deque(range(len(stacks)))
        self._busy: dict[Worker, int] = {}
        self._deaths = [0] * len(stacks)
        self._first = [-1] * len(stacks)  # rounds completed when the stack was first started; -1: not yet
        self._at = [0] * len(stacks)  # rounds completed now
        self._shown = (-1, -1)
        self._failure: FedsweError | RuntimeError | None = None
        self._spent: set[Worker] = set()  # asked to stop, so that they would stop their next stack, or left by an error

    def run(self) -> list[Cell]:
        """The cells of those stacks whose workers died."""
        idle: list[Worker] = []
        while self._busy or (self._waiting and not self._ending):
            while self._waiting and not self._ending and len(self._busy) < self._executor.workers:
                worker = idle.pop() if idle else self._executor.start()
                self._busy[worker] = self._waiting.popleft()
                worker.begin(self._stacks[self._busy[worker]], self._store)
            if not self._busy:  # asked to stop between the two conditions
                break
            for worker in self._executor.wait(list(self._busy), 0.2):
                if self._received(worker):
                    idle.append(worker)
            if self._ending:
                for worker in self._busy.keys() - self._spent:
                    worker.stop()
                    self._spent.add(worker)
        for worker in idle:
            if worker in self._spent:
                worker.close()
            else:
                self._executor.release(worker)
        if self._failure is not None:
            raise self._failure
        if self._signals.stop:
            raise KeyboardInterrupt
        return [cell for stack, deaths in zip(self._stacks, self._deaths, strict=True) if deaths for cell in stack]

    @property
    def _ending(self) -> bool:
        return self._signals.stop or self._failure is not None

    def _received(self, worker: Worker) -> bool:
        """Take one message of a worker; whether the worker is idle now."""
        stack = self._busy[worker]
        try:
            at = worker.receive()
        except WorkerDied:
            del self._busy[worker]
            self._replace(stack)
            return False
        except (FedsweError, RuntimeError) as error:
            del self._busy[worker]
            self._spent.add(worker)
            self._failure = self._failure or error
            return True
        if at is None:
            del self._busy[worker]
            at = self._at[stack] if self._ending else rounds_of(self._stacks[stack])
        if self._first[stack] < 0:
            self._first[stack] = at
        self._at[stack] = at
        self._show()
        return worker not in self._busy

    def _replace(self, stack: int) -> None:
        self._deaths[stack] += 1
        if self._deaths[stack] < _DEATHS:
            self._waiting.append(stack)
        elif self._failure is None:
            self._failure = FedsweError(
                f"{_DEATHS} workers died while they ran {self._stacks[stack][0].name} and the cells of its stack; "
                "the memory may be too small: give the same command again, which continues, with fewer --jobs"
            )

    def _show(self) -> None:
        if self._watch is not None:
            started = [i for i, first in enumerate(self._first) if first >= 0]
            done = sum(self._at[i] - self._first[i] for i in started)
            total = sum(map(rounds_of, self._stacks)) - sum(self._first[i] for i in started)
            if (done, total) != self._shown:
                self._shown = done, total
                self._watch(done, total)
