"""The results directory: finished cells as two small text files each, unfinished ones as run directories.

cells/SCALE-PROFILE/NAME.toml   coordinates, machine, commit, time, and the resolved configuration
cells/SCALE-PROFILE/NAME.csv    the history; written last, so its presence means finished
work/SCALE-PROFILE/NAME/        while a cell runs: its checkpoint
work/SCALE-PROFILE/NAME.lock    held by the process that runs it, and let go by the system when that dies
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import shutil
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from fedswe.errors import FedsweError, require
from fedswe.experiment.configuration import dump, experiment
from fedswe.experiment.experiment import Experiment
from fedswe.results.files import cannot_write, write_whole
from fedswe.results.history import History
from fedswe.results.run_directory import RunDirectory
from fedswe_paper.cell import Cell, settings_text


@dataclass(frozen=True)
class Finished:
    cell: Cell
    history: History

    def score(self, column: str, output: str | None = None) -> float:
        """A score in percent, averaged over the tail of the run, at the model the profile judges by."""
        tail = self.cell.experiment().evaluate.tail
        return 100 * self.history.tail_mean(f"{output or self.cell.judged_by}_{column}", tail)

    @property
    def diverged(self) -> bool:
        """Whether a model ended in NaN or infinity; its accuracy, that of one class, does not tell."""
        return not all(math.isfinite(value) for name, value in self.history.last.items() if name.endswith("_loss"))


class Store:
    def __init__(self, path: Path) -> None:
        self.path = path

    def _file(self, cell: Cell, suffix: str) -> Path:
        return self.path / "cells" / f"{cell.scale}-{cell.profile}" / f"{cell.name}{suffix}"

    def work(self, cell: Cell) -> Path:
        return self.path / "work" / f"{cell.scale}-{cell.profile}" / cell.name

    # finished cells ------------------------------------------------------------------------------------
    def finished(self, cell: Cell) -> bool:
        history = self._file(cell, ".csv")
        if not history.is_file():
            return False
        _refuse_other_settings(history, _description(history), cell)
        return True

    def load(self, scale: str, profile: str) -> list[Finished]:
        """All finished cells of a scale and profile."""
        folder = self.path / "cells" / f"{scale}-{profile}"
        return [self._read(path) for path in sorted(folder.glob("*.csv"))]

    def _read(self, path: Path) -> Finished:
        table = _description(path)
        try:
            found = Finished(Cell(**table["cell"]), History.from_csv(path.read_text()))
            require(found.history.last["round"] == table["config"]["rounds"], "the end is missing")
        except (OSError, KeyError, IndexError, TypeError, ValueError):
            raise _damaged(path) from None
        _refuse_other_settings(path, table, found.cell)
        return found

    def keep(self, cell: Cell) -> None:
        """Move a run that has ended from work to cells."""
        work = RunDirectory(self.work(cell))
        history = work.history()
        table = {
            "cell": cell.coordinates(),
            "run": {**json.loads((work.path / "run.json").read_text()), "seconds": history.last["seconds"]},
            "config": tomllib.loads(work.config()),
        }
        self._file(cell, ".toml").parent.mkdir(parents=True, exist_ok=True)
        write_whole(self._file(cell, ".toml"), tomli_w.dumps(table))
        write_whole(self._file(cell, ".csv"), history.to_csv(digits=6))
        shutil.rmtree(work.path, ignore_errors=True)  # another process may sweep at the same time

    def sweep(self, cells: Iterable[Cell]) -> None:
        """Remove what is left of the work on finished cells where a process was killed right after."""
        for cell in cells:
            if self.work(cell).exists() and self.finished(cell):
                shutil.rmtree(self.work(cell), ignore_errors=True)

    # unfinished cells ----------------------------------------------------------------------------------
    @contextmanager
    def claim(self, cell: Cell) -> Iterator[bool]:
        """Whether this process may run the cell; nobody else may until it lets go, or dies."""
        handle = _opened(self.work(cell).with_name(f"{cell.name}.lock"))
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield not self.finished(cell)
        finally:
            os.close(handle)

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """One process at a time writes reports; others wait."""
        handle = _opened(self.path / "work" / "reports.lock")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def running(self, cells: Iterable[Cell]) -> list[Cell]:
        """The cells some process works on right now."""
        found = []
        for cell in cells:
            if self.work(cell).with_name(f"{cell.name}.lock").exists():
                with self.claim(cell) as free:
                    if not free and not self.finished(cell):
                        found.append(cell)
        return found

    def ended(self, cell: Cell, experiment: Experiment) -> bool:
        """Whether the run of a claimed cell ended, and its process was killed before it could keep it."""
        directory = RunDirectory(self.work(cell))
        return directory.finished and directory.config() == dump(experiment)

    def open_work(self, cell: Cell, experiment: Experiment, provenance: dict[str, object]) -> RunDirectory:
        """The run directory of a claimed cell: a new one, or the one a dead process left."""
        directory = RunDirectory(self.work(cell))
        if (directory.path / "config.toml").is_file() and directory.config() == dump(experiment):
            directory.note(provenance)
            return directory
        shutil.rmtree(directory.path, ignore_errors=True)  # nothing in it, or another precision or device
        directory.create(dump(experiment), provenance)
        return directory


def _opened(lock: Path) -> int:
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        return os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise cannot_write(lock, error) from None


def _description(history: Path) -> dict[str, Any]:
    """What is kept beside the history of a finished cell."""
    try:
        table = tomllib.loads(history.with_suffix(".toml").read_text())
        require("config" in table, "the configuration is missing")
        return table
    except (OSError, ValueError):
        raise _damaged(history) from None


def _damaged(history: Path) -> FedsweError:
    return FedsweError(f"{history} or its .toml is damaged: delete both to run the cell again")


def _refuse_other_settings(history: Path, table: dict[str, Any], cell: Cell) -> None:
    there, now = settings_text(experiment(table["config"])), settings_text(cell.experiment())
    if there != now:
        lines = zip(there.split("\n"), now.split("\n"), strict=False)
        changed = next((f"{a} there, {b} now" for a, b in lines if a != b), "more keys")
        raise FedsweError(f"{history} was measured with other settings ({changed}): delete it, or choose another --out")
