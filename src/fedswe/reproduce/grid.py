"""Run the cells that are not finished: in companies that train as one stack, across processes, resumably."""

from __future__ import annotations

import multiprocessing
import os
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
_CHECKPOINT = 300.0  # seconds between checkpoints

_rounds: Any = None  # shared by the processes of a grid: rounds run so far


@dataclass(frozen=True)
class Machine:
    """Where cells are run; results do not depend on it beyond the rounding of the precision."""

    device: str = "cpu"
    precision: Literal["fp32", "tf32", "bf16"] = "fp32"
    jobs: int = 0  # processes; 0: one per core, one for a GPU

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
    """Run every cell that is neither finished nor run by somebody else."""
    left = [cell for cell in dict.fromkeys(cells) if not store.finished(cell)]
    size = min(_COMPANY[machine.kind], -(-len(left) // machine.processes) or 1)
    # Cells of one data set and length go together: they share a stack, and end together.
    left.sort(key=lambda cell: (cell.dataset, cell.periodic, cell.experiment().rounds))
    companies = [left[at : at + size] for at in range(0, len(left), size)]
    total = sum(cell.experiment().rounds for cell in left)
    context = multiprocessing.get_context("spawn")
    rounds = context.Value("q", 0)
    if machine.processes == 1:
        _share(rounds, 0)
        for company in companies:
            _run_company(company, store.path, machine, watch and (lambda: watch(rounds.value, total)))
        return
    with ProcessPoolExecutor(machine.processes, context, initializer=_share, initargs=(rounds, 1)) as pool:
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


def _share(rounds: Any, threads: int) -> None:
    global _rounds
    _rounds = rounds
    if threads:  # one each: idle threads of one worker would steal the other's core
        torch.set_num_threads(threads)


def _run_company(cells: Sequence[Cell], out: Path, machine: Machine, watch: Callable[[], None] | None = None) -> None:
    store = Store(out)
    with ExitStack() as claims:
        ours = [cell for cell in cells if claims.enter_context(store.claim(cell))]
        runners = [_runner(cell, store, machine) for cell in ours]
        clock = time.monotonic()

        def after_round(*_: object) -> None:
            nonlocal clock
            with _rounds.get_lock():
                _rounds.value += 1
            if watch is not None:
                watch()
            if time.monotonic() - clock > _CHECKPOINT:
                for runner in runners:
                    runner.save()
                clock = time.monotonic()

        advance(runners, after_round)
        for cell, runner in zip(ours, runners, strict=True):
            store.keep(cell, runner.experiment, runner.history)


def _runner(cell: Cell, store: Store, machine: Machine) -> Runner:
    experiment = machine.experiment(cell)
    try:
        runner = Runner(experiment)
        directory = store.open_work(cell, experiment, provenance())
        runner.keep_in(directory, directory.load_checkpoint())
    except FedsweError as error:
        raise FedsweError(f"{cell.name}: {error}") from None
    return runner
