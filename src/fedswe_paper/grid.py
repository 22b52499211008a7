"""Run the cells that are not finished: in companies that train as one stack, across processes, resumably.

Killed, a grid goes on from its last checkpoints; asked to end (Ctrl-C, or the SIGTERM of a scheduler), it writes them
after the round it is in.
"""

from __future__ import annotations

import math
import multiprocessing
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from fedswe.errors import FedsweError
from fedswe.experiment.experiment import Experiment
from fedswe.experiment.runner import RUNS_PER_STACK, Runner, advance, kind_of, processes
from fedswe.grid.processes import Workers
from fedswe.results.provenance import provenance
from fedswe_paper.cell import Cell
from fedswe_paper.store import Store


@dataclass(frozen=True)
class _Shared:
    """What the processes of a grid tell each other."""

    rounds: Any  # run so far
    spared: Any  # which checkpoints had already
    stop: Any  # asked to end after this round


_shared: _Shared  # of this process


@dataclass(frozen=True)
class Machine:
    """Where cells are run; results do not depend on it beyond the rounding of the precision."""

    device: str = "cpu"
    precision: Literal["fp32", "tf32", "bf16"] = "fp32"
    jobs: int = 0  # processes; 0: one per core, one for a GPU
    checkpoint: float = 300.0  # seconds between checkpoints

    def experiment(self, cell: Cell) -> Experiment:
        value = cell.experiment()
        return replace(value, device=self.device, local=replace(value.local, precision=self.precision))

    @property
    def processes(self) -> int:
        return processes(self.device, self.jobs)


Watch = Callable[[int, int], None]  # rounds run, rounds there are to run


def run_cells(cells: Sequence[Cell], store: Store, machine: Machine, watch: Watch | None = None) -> None:
    """Run every cell that is neither finished nor run by somebody else, also those that somebody lets go meanwhile."""
    store.sweep(cells)
    while left := _free(cells, store):
        _run_all(left, store, machine, watch)


def _free(cells: Sequence[Cell], store: Store) -> list[Cell]:
    left = [cell for cell in dict.fromkeys(cells) if not store.finished(cell)]
    held = set(store.running(left))
    return [cell for cell in left if cell not in held]


def _run_all(left: list[Cell], store: Store, machine: Machine, watch: Watch | None) -> None:
    size = min(RUNS_PER_STACK[kind_of(machine.device)], -(-len(left) // machine.processes))
    # Cells of one data set and length go together: they share a stack, and end together.
    left.sort(key=lambda cell: (cell.dataset, cell.periodic, cell.experiment().rounds))
    companies = [left[at : at + size] for at in range(0, len(left), size)]
    total = sum(cell.experiment().rounds for cell in left)
    context = multiprocessing.get_context("spawn")
    shared = _Shared(*(context.Value("q", 0) for _ in range(3)))

    def look() -> None:
        if watch is not None:
            watch(shared.rounds.value, total - shared.spared.value)

    with _stopped_by_signals(shared):
        if machine.processes == 1:
            _share(shared)
            for company in companies:
                _run_company(company, store.path, machine, look)
        else:
            _run_in_processes(companies, store, machine, shared, look)
    if shared.stop.value:
        raise KeyboardInterrupt


def _run_in_processes(
    companies: list[list[Cell]], store: Store, machine: Machine, shared: _Shared, look: Callable[[], None]
) -> None:
    with Workers(machine.processes, _share, shared) as pool:
        pending = {pool.submit(_run_company, company, store.path, machine) for company in companies}
        try:
            while pending:
                done, pending = wait(pending, timeout=0.5)
                for future in done:
                    future.result()
                look()
        except BrokenProcessPool:
            raise FedsweError(
                "a process of the grid was killed, perhaps for want of memory: give the same command again, which goes "
                "on from the last checkpoints, with fewer --jobs"
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _stopped_by_signals(shared: _Shared) -> Iterator[None]:
    """The first signal asks to end after the round; one that comes later than a second after it ends at once.

    Not earlier: `timeout` sends its signal to the command and to the command's group, and so twice.
    """
    if threading.current_thread() is not threading.main_thread():  # others may not handle signals
        yield
        return

    asked = math.inf

    def ask(number: int, _: object) -> None:
        nonlocal asked
        if time.monotonic() > asked + 1.0:
            signal.signal(number, before[number])
            signal.raise_signal(number)
        asked = min(asked, time.monotonic())
        shared.stop.value = 1

    before: dict[int, Any] = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _share(shared: _Shared) -> None:
    global _shared
    _shared = shared


class _Stopped(Exception):
    """The grid was asked to end, and everything is saved."""


def _run_company(cells: Sequence[Cell], out: Path, machine: Machine, look: Callable[[], None] | None = None) -> None:
    if _shared.stop.value:
        return
    store = Store(out)
    with ExitStack() as claims:
        ours = [cell for cell in cells if claims.enter_context(store.claim(cell))]
        runners = _runners([cell for cell in ours if not store.ended(cell, machine.experiment(cell))], store, machine)
        with _shared.spared.get_lock():
            _shared.spared.value += sum(runner.engine.t for runner in runners)
        clock = time.monotonic()

        def after_round(*_: object) -> None:
            nonlocal clock
            with _shared.rounds.get_lock():
                _shared.rounds.value += 1
            if look is not None:
                look()
            if _shared.stop.value or time.monotonic() - clock > machine.checkpoint:
                for runner in runners:
                    runner.save()
                clock = time.monotonic()
            if _shared.stop.value:
                raise _Stopped

        try:
            advance(runners, after_round)
        except _Stopped:
            return
        for cell in ours:
            store.keep(cell)


def _runners(cells: Sequence[Cell], store: Store, machine: Machine) -> list[Runner]:
    """Each at its start, or where a dead process left it."""
    runners: list[Runner] = []
    for cell in cells:
        try:
            runners.append(Runner(machine.experiment(cell)))
        except FedsweError as error:
            raise FedsweError(f"{cell.name}: {error}") from None
    noted = provenance()  # once, for it asks git; and now, when the GPU in use is known
    for cell, runner in zip(cells, runners, strict=True):
        directory = store.open_work(cell, runner.experiment, noted)
        runner.keep_in(directory, directory.load_checkpoint())
    return runners
