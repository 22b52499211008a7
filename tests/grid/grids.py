"""A grid of small cells, and a store that records who runs what."""

import os
import random
import signal
from dataclasses import dataclass

import numpy as np

from fedswe.experiment.configuration import load
from fedswe.grid.store import Cell, RunStore
from tests.cli.command import wait_for

ALGORITHMS = ("fedswe", "fedavg", "mifa", "scaffold")


def small_cells(count=40, rounds=20):
    """Runs of several lengths, so that some runs of a stack end before others."""
    words = ["task.name=quadratic", "availability.p=0.5", "evaluate.every=10", "record.checkpoint=10"]
    return [
        Cell(
            f"cell{i}",
            load(None, [*words, f"seed={i}", f"rounds={rounds + 2 * i}", f"algorithm.name={ALGORITHMS[i % 4]}"]),
        )
        for i in range(count)
    ]


@dataclass(frozen=True)
class LoggedStore(RunStore):
    """Appends a line when the run of a cell begins or continues, and when it is kept.

    The process that appends the n-th line kills itself, for every n in `kill_at`.
    """

    kill_at: tuple[int, ...] = ()

    def open_work(self, cell, provenance):
        self._log("start", cell)
        return super().open_work(cell, provenance)

    def keep(self, cell):
        super().keep(cell)
        self._log("keep", cell)

    def _log(self, what, cell):
        self._append(f"{what} {cell.name} {os.getpid()}")
        killed = self.killed()
        if killed < len(self.kill_at) and len(self.log()) >= self.kill_at[killed]:
            self._append(f"kill {cell.name} {os.getpid()}")
            os.kill(os.getpid(), signal.SIGKILL)

    def _append(self, line):
        handle = os.open(self.path / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(handle, f"{line}\n".encode())
        os.close(handle)

    def log(self):
        return [line.split() for line in (self.path / "log").read_text().splitlines()]

    def killed(self):
        return sum(what == "kill" for what, _, _ in self.log())


@dataclass(frozen=True)
class WaitingStore(RunStore):
    """The run of the cell `last` begins when that of the cell `first` has a checkpoint."""

    first: str = ""
    last: str = ""

    def open_work(self, cell, provenance):
        if cell.name == self.last:
            wait_for((self.path / "runs" / self.first / "checkpoint.safetensors").exists)
        return super().open_work(cell, provenance)


def random_moments(kills, seed=0):
    return tuple(sorted(random.Random(seed).sample(range(4, 90), kills)))


def assert_each_once(store, cells):
    """Every cell is finished, was kept at most once, and was not started again afterwards."""
    assert all(store.finished(cell) for cell in cells)
    kept = set()
    for what, name, _ in store.log():
        assert name not in kept or what == "kill"
        if what == "keep":
            kept.add(name)


def assert_same_results(store, other, cells):
    """To the rounding of the arithmetic: a stack that is continued has fewer runs in it."""
    for cell in cells:
        a, b = store.history(cell), other.history(cell)
        assert a.columns == b.columns
        for column in set(a.columns) - {"seconds"}:
            np.testing.assert_allclose(a[column], b[column], rtol=1e-4, atol=1e-6, err_msg=f"{cell.name} {column}")
