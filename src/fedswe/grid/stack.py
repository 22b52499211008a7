"""Cells that are run as one stack in one process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

from fedswe.errors import FedsweError
from fedswe.experiment.configuration import recorded
from fedswe.experiment.runner import Runner, advance, threads_of
from fedswe.grid.store import Cell, Store
from fedswe.results.run_directory import provenance

RUNS_PER_STACK = {"cpu": 8, "cuda": 64}  # where larger stacks are no faster, by kind of device
CHECKPOINT_SECONDS = 300.0


def divide(cells: Sequence[Cell], workers: int) -> list[list[Cell]]:
    """Stacks for so many workers: all of them have work, and no stack is larger than pays."""
    if not cells:
        return []
    kind = cells[0].experiment.device.split(":")[0]
    size = min(RUNS_PER_STACK[kind], -(-len(cells) // workers))
    # Runs of the same task and length share tensors, and end together.
    alike = sorted(cells, key=lambda cell: (repr(cell.experiment.task), cell.experiment.rounds))
    return [alike[at : at + size] for at in range(0, len(alike), size)]


def rounds_of(cells: Sequence[Cell]) -> int:
    return sum(cell.experiment.rounds for cell in cells)


def run_stack(cells: Sequence[Cell], store: Store, stopping: Callable[[], bool]) -> Iterator[tuple[int, int]]:
    """Run the cells that are neither finished nor claimed by another process, and keep each as soon as it ends.

    Yields, before the first round and after every round, how many rounds were completed at the beginning and are now,
    summed over all its cells; cells that are not run here count as completed. When `stopping` says so, all runs are
    saved, and the iteration ends.
    """
    with ExitStack() as claims:
        unfinished = [cell for cell in cells if claims.enter_context(store.claim(cell))]
        runners = _runners(unfinished)
        threads = threads_of(runners)
        _keep(unfinished, runners, threads, store, claims)
        saved, began = time.monotonic(), _position(cells, runners)
        yield began, began
        if stopping():
            return
        left = dict(zip(runners, unfinished, strict=True))
        for _ in advance(runners, threads):
            for runner in [runner for runner in left if not runner.going]:
                store.keep(left.pop(runner))
            yield began, _position(cells, runners)
            stop = stopping()
            if stop or time.monotonic() - saved > CHECKPOINT_SECONDS:
                for runner in left:
                    runner.save()
                saved = time.monotonic()
            if stop:
                return
        for cell in left.values():  # its checkpoint was of the last round
            store.keep(cell)


def _position(cells: Sequence[Cell], runners: Sequence[Runner]) -> int:
    return rounds_of(cells) - sum(runner.experiment.rounds - runner.engine.t for runner in runners if runner.going)


def _runners(cells: Sequence[Cell]) -> list[Runner]:
    runners: list[Runner] = []
    for cell in cells:
        try:
            runners.append(Runner(cell.experiment))
        except FedsweError as error:
            raise FedsweError(f"{cell.name}: {error}") from None
    return runners


def _keep(cells: Sequence[Cell], runners: Sequence[Runner], threads: int, store: Store, claims: ExitStack) -> None:
    """Give every run its directory; each is then at its start, or at its last checkpoint."""
    noted = provenance(threads=threads)  # once, because it asks git; and now, when the GPU in use is known
    for cell, runner in zip(cells, runners, strict=True):
        directory = store.open_work(cell, noted | recorded(cell.experiment))
        claims.enter_context(directory.held())
        runner.keep_in(directory, directory.load_checkpoint(), store.tracked(cell))
        claims.callback(runner.close)  # also where the stack is stopped before its first round
