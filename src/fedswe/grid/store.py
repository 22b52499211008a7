"""Directories of cells: which are finished, and which are being run.

Several processes, also of several commands, may use one directory. A process claims a cell before it runs it; the claim
ends with the process, however that ends, and the next process continues from the last checkpoint.
"""

from __future__ import annotations

import json
import shutil
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import tomli_w

from fedswe.errors import FedsweError, require
from fedswe.experiment.configuration import dump, experiment, first_difference, load_text, refuse_changed, refuse_other
from fedswe.experiment.experiment import Experiment
from fedswe.results.files import Claim, is_claimed, write_whole
from fedswe.results.history import History
from fedswe.results.run_directory import RunDirectory


@dataclass(frozen=True)
class Cell:
    """A cell of a grid: an experiment with a name."""

    name: str  # unique in its grid, and a file name; slashes separate folders
    experiment: Experiment
    notes: Mapping[str, Any] = field(default_factory=dict)  # plain values that are stored with the result


@dataclass(frozen=True)
class Store(ABC):
    """What all stores share. A store is sent to worker processes: it holds nothing but where it is."""

    path: Path
    runs: ClassVar[str] = "work"  # folder of the run directories of cells while they are run
    lock_folder: ClassVar[str] = "work"

    @property
    def locks(self) -> Path:
        """The folder of the locks, and of what the processes of a command tell each other."""
        return self.path / self.lock_folder

    def work(self, cell: Cell) -> Path:
        """The run directory of the cell while it is run."""
        return self.path / self.runs / cell.name

    def lock_file(self, cell: Cell) -> Path:
        """The file that is locked while a process runs the cell."""
        return self.locks / f"{cell.name}.lock"

    @abstractmethod
    def finished(self, cell: Cell) -> bool:
        """Whether the cell has its result; refuses a result of other settings."""

    @abstractmethod
    def keep(self, cell: Cell) -> None:
        """Store the result of a claimed cell whose run has ended."""

    def tracked(self, cell: Cell) -> Path:
        """Where trackers keep their files of a cell; the run directory is gone when its result is stored."""
        return self.path / "tracked" / cell.name

    @contextmanager
    def claim(self, cell: Cell) -> Iterator[bool]:
        """Whether this process may run the cell; no other process may until the end of the context."""
        claim, directory = Claim(self.lock_file(cell)), RunDirectory(self.work(cell))
        try:
            left = claim.granted and not self.finished(cell)
            if left and directory.finished and _same(directory, cell):
                self.keep(cell)  # its process was killed before it did this
                left = False
            yield left
        finally:
            claim.release()

    def running(self, cells: Iterable[Cell]) -> list[Cell]:
        """The unfinished cells that some process has claimed."""
        return [cell for cell in cells if is_claimed(self.lock_file(cell)) and not self.finished(cell)]

    def open_work(self, cell: Cell, provenance: dict[str, object]) -> RunDirectory:
        """The run directory of a claimed cell: a new one, or the one that a stopped process left."""
        directory = RunDirectory(self.work(cell))
        if (directory.path / "config.toml").is_file() and _same(directory, cell):
            refuse_changed(directory.recorded(), cell.experiment, directory.path)
            directory.note(provenance)
        else:
            self.discard(cell)
            directory.create(dump(cell.experiment), provenance)
        return directory

    def discard(self, cell: Cell) -> None:
        """Remove the run directory of a run that is not continued."""
        shutil.rmtree(self.work(cell), ignore_errors=True)


def _same(directory: RunDirectory, cell: Cell) -> bool:
    """Whether a run directory is of this cell's experiment; an earlier version may have written fewer keys."""
    text = directory.config()
    try:
        there = replace(load_text(text, str(directory.path)), threads=cell.experiment.threads)
        return text == dump(cell.experiment) or there == cell.experiment
    except FedsweError:
        return False


@dataclass(frozen=True)
class RunStore(Store):
    """Every cell is a run directory, runs/NAME, and stays one."""

    runs: ClassVar[str] = "runs"
    lock_folder: ClassVar[str] = ".locks"

    def tracked(self, cell: Cell) -> Path:
        return self.work(cell)

    def finished(self, cell: Cell) -> bool:
        directory = RunDirectory(self.work(cell))
        if (directory.path / "config.toml").is_file() and directory.config() != dump(cell.experiment):
            stored = load_text(directory.config(), str(directory.path / "config.toml"))
            refuse_other(stored, cell.experiment, directory.path)
        refuse_changed(directory.recorded(), cell.experiment, directory.path)
        return directory.finished

    def keep(self, cell: Cell) -> None:
        """Nothing is left to do: model.safetensors, which a run writes last, marks the end."""

    def history(self, cell: Cell) -> History:
        """The history of a finished cell."""
        return RunDirectory(self.work(cell)).history()


@dataclass(frozen=True)
class ResultStore(Store):
    """Every finished cell is two small text files, which is what a repository can hold.

    cells/NAME.toml   notes of the cell, machine, commit, time, and the resolved configuration
    cells/NAME.csv    the history; written last, so its presence means finished
    work/NAME/        while a cell is run: its run directory
    work/NAME.lock    locked by the process that runs it
    """

    def _result(self, cell: Cell) -> Path:
        return self.path / "cells" / f"{cell.name}.csv"

    def finished(self, cell: Cell) -> bool:
        if not self._result(cell).is_file():
            return False
        refuse_other_settings(self._result(cell), description(self._result(cell)), cell.experiment)
        if self.work(cell).exists():  # a process was killed right after it stored the result
            self.discard(cell)
        return True

    def keep(self, cell: Cell) -> None:
        work, result = RunDirectory(self.work(cell)), self._result(cell)
        history = work.history()
        table = {
            "cell": dict(cell.notes),
            "run": {**json.loads((work.path / "run.json").read_text()), "seconds": history.last["seconds"]},
            "config": {key: value for key, value in tomllib.loads(work.config()).items() if key != "track"},
        }
        result.parent.mkdir(parents=True, exist_ok=True)
        write_whole(result.with_suffix(".toml"), tomli_w.dumps(table))
        write_whole(result, history.to_csv(digits=6))
        self.discard(cell)

    def history(self, cell: Cell) -> History:
        return read_result(self._result(cell), cell.experiment, description(self._result(cell)))


def description(result: Path) -> dict[str, Any]:
    """What is stored beside the history of a finished cell: the tables cell, run and config."""
    try:
        table = tomllib.loads(result.with_suffix(".toml").read_text())
        require("config" in table, "the configuration is missing")
        return table
    except (OSError, ValueError):
        raise damaged(result) from None


def read_result(result: Path, expected: Experiment, table: dict[str, Any]) -> History:
    """The history of a finished cell, if it is whole and was measured with the expected settings."""
    try:
        history = History.from_csv(result.read_text())
        ended, rounds = history.last["round"], table["config"]["rounds"]
        require(ended == rounds or (ended < rounds and expected.clock.may_end_early), "the end is missing")
    except (OSError, KeyError, IndexError, TypeError, ValueError):
        raise damaged(result) from None
    refuse_other_settings(result, table, expected)
    return history


def damaged(result: Path) -> FedsweError:
    return FedsweError(f"{result} or its .toml is damaged: delete both to run the cell again")


def refuse_other_settings(result: Path, table: dict[str, Any], expected: Experiment) -> None:
    """Refuse a result that does not depend on the same settings: all but device, threads, trackers and precision."""
    there, now = (
        replace(value, device="cpu", threads=0, local=replace(value.local, precision="fp32"))
        for value in (experiment(table["config"]), expected)
    )
    other = first_difference(there, now)
    require(not other, f"{result} was measured with other settings ({other}): delete it, or choose another out=")
