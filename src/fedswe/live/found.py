"""Finds runs and grids below some directories, by the names of the files in them."""

from __future__ import annotations

import csv
import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from fedswe.comparison.labels import file_name, number_text
from fedswe.grid.cell import PLANNED
from fedswe.live.plain_files import text_of

_DEEPEST = 8  # folders below a directory
_FOLDERS = 20_000  # that are looked into
_PLANS = 1 << 22  # bytes of a list of cells, or of a table of a gym
MOST_RUNS = 3000


@dataclass(frozen=True)
class RunPlace:
    """A run directory, or the stored result of a cell."""

    path: Path  # the folder, or the .csv of a result
    name: str
    grid: str = ""  # id of the grid that it is a cell of

    @property
    def stored(self) -> bool:
        """Whether it is the result of a finished cell, without a run directory."""
        return self.path.suffix == ".csv"

    @property
    def history(self) -> Path:
        return self.path if self.stored else self.path / "history.csv"


@dataclass(frozen=True)
class GridPlace:
    path: Path
    name: str
    form: Literal["comparison", "grid", "gym"]
    done: frozenset[str] = frozenset()  # cells that have a result and no run directory
    planned: tuple[str, ...] = ()


@dataclass
class Found:
    runs: dict[str, RunPlace] = field(default_factory=dict)
    grids: dict[str, GridPlace] = field(default_factory=dict)
    left_out: int = 0  # runs above the limit


def id_of(path: Path) -> str:
    """Names a thing in addresses and messages, instead of its path."""
    return hashlib.blake2s(os.fsencode(path), digest_size=8).hexdigest()


def find(roots: Sequence[Path]) -> Found:
    search = _Search()
    for root in roots:
        search.visit(Path(os.path.abspath(root)), root.name or str(root), 0)
    return search.found


class _Search:
    def __init__(self) -> None:
        self.found, self._folders = Found(), 0

    def visit(self, path: Path, name: str, depth: int, grid: str = "", inside: str = "") -> None:
        """`inside`: the part of the name that a cell has in its grid."""
        files, folders = _names(path)
        self._folders += 1
        if "config.toml" in files:
            self._add_run(RunPlace(path, inside or name, grid))
            return
        if depth >= _DEEPEST or self._folders > _FOLDERS:
            return
        if (form := _form(path, files, folders)) and not grid:
            grid = id_of(path)
            if form == "gym" and not depth:
                name = f"{path.parent.name}/{name}"  # the folder of a scale
            self._add_grid(grid, GridPlace(path, name, form), files)
            folders = folders & {"runs" if form == "comparison" else "work"}
            for folder in folders:
                self.visit(path / folder, name, depth + 1, grid)
            return
        for folder in sorted(folders):
            below = f"{inside}/{folder}" if inside else folder
            self.visit(path / folder, f"{name}/{folder}", depth + 1, grid, below if grid else "")

    def _add_run(self, place: RunPlace) -> None:
        if len(self.found.runs) < MOST_RUNS:
            self.found.runs[id_of(place.path)] = place
        else:
            self.found.left_out += 1

    def _add_grid(self, grid: str, place: GridPlace, files: set[str]) -> None:
        path, done = place.path, set[str]()
        planned = path / (".locks" if place.form == "comparison" else "work") / PLANNED
        if place.form == "grid":
            for result in _below(path / "cells"):
                cell = result.relative_to(path / "cells").with_suffix("").as_posix()
                done.add(cell)
                self._add_run(RunPlace(result, cell, grid))
        elif place.form == "gym":
            for table in sorted(files):
                if table.endswith(".csv"):
                    done |= _measured(path / table)
            done |= {r.relative_to(path / "work").with_suffix("").as_posix() for r in _below(path / "work")}
        names = tuple(dict.fromkeys(text_of(planned, _PLANS).splitlines()))
        self.found.grids[grid] = GridPlace(path, place.name, place.form, frozenset(done), names)


def _form(path: Path, files: set[str], folders: set[str]) -> Literal["comparison", "grid", "gym"] | None:
    if "runs" in folders and (os.path.isdir(path / ".locks") or "compare.csv" in files):
        return "comparison"
    if "cells" in folders:
        return "grid"
    if "work" in folders and os.path.isfile(path / "work" / PLANNED):
        return "gym"
    return None


def _names(path: Path) -> tuple[set[str], set[str]]:
    """Of files and of folders; hidden folders and links to folders are left out."""
    files, folders = set(), set()
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if not entry.name.startswith("."):
                        folders.add(entry.name)
                else:
                    files.add(entry.name)
    except OSError:
        pass  # it has gone, or may not be read
    return files, folders


def _below(path: Path, depth: int = 0) -> Iterator[Path]:
    """The .csv files in a folder and in the folders in it."""
    files, folders = _names(path)
    yield from (path / file for file in sorted(files) if file.endswith(".csv"))
    if depth < 3:
        for folder in sorted(folders):
            yield from _below(path / folder, depth + 1)


def _measured(table: Path) -> set[str]:
    """The cells of a setting of a gym that are in its table."""
    try:
        return {
            f"{table.stem}/{file_name(row['rule'])}-lr{number_text(float(row['rate']))}-seed{row['seed']}"
            for row in csv.DictReader(text_of(table, _PLANS).splitlines())
        }
    except (KeyError, TypeError, ValueError, csv.Error):
        return set()  # another table
