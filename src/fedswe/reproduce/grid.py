"""Run the cells that are not finished: in companies that train as one stack, across processes, resumably."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from fedswe.errors import FedsweError
from fedswe.experiment import Experiment
from fedswe.reproduce.cell import Cell
from fedswe.reproduce.store import Store
from fedswe.results.provenance import provenance
from fedswe.run import Runner, advance

_COMPANY = {"cpu": 8, "cuda": 64}  # cells whose clients train as one stack

_rounds: Any = None  # shared by the processes of a grid: rounds run so far


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
    def kind(self) -> str:
        return self.device.split(":")[0]

    @property
    def processes(self) -> int:
        return self.jobs or (1 if self.kind == "cuda" else os.cpu_count() or 1)


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
    size = min(_COMPANY[machine.kind], -(-len(left) // machine.processes))
    # Cells of one data set and length go together: they share a stack, and end together.
    left.sort(key=lambda cell: (cell.dataset, cell.periodic, cell.experiment().rounds))
    companies = [left[at : at + size] for at in range(0, len(left), size)]
    total = sum(cell.experiment().rounds for cell in left)
    context = multiprocessing.get_context("spawn")
    rounds = context.Value("q", 0)
    if machine.processes == 1:
        _share(rounds)
        for company in companies:
            _run_company(company, store.path, machine, watch and (lambda: watch(rounds.value, total)))
        return
    with ProcessPoolExecutor(machine.processes, context, initializer=_work, initargs=(rounds,)) as pool:
        pending = {pool.submit(_run_company, company, store.path, machine) for company in companies}
        try:
            while pending:
                done, pending = wait(pending, timeout=0.5)
                for future in done:
                    future.result()
                if watch is not None:
                    watch(rounds.value, total)
        finally:
            pool.shutdown(cancel_futures=True)


def _share(rounds: Any) -> None:
    global _rounds
    _rounds = rounds


def _work(rounds: Any) -> None:
    """The start of a process of the grid."""
    _share(rounds)
    torch.set_num_threads(1)  # idle threads of one process would steal the other's core
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A killed grid must not go on in processes that nobody sees and that hold its cells."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(1)


def _run_company(cells: Sequence[Cell], out: Path, machine: Machine, watch: Callable[[], None] | None = None) -> None:
    store = Store(out)
    with ExitStack() as claims:
        ours = [cell for cell in cells if claims.enter_context(store.claim(cell))]
        runners = _runners([cell for cell in ours if not store.ended(cell, machine.experiment(cell))], store, machine)
        clock = time.monotonic()

        def after_round(*_: object) -> None:
            nonlocal clock
            with _rounds.get_lock():
                _rounds.value += 1
            if watch is not None:
                watch()
            if time.monotonic() - clock > machine.checkpoint:
                for runner in runners:
                    runner.save()
                clock = time.monotonic()

        advance(runners, after_round)
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
