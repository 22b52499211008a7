"""The runs that are finished so far, in the directory of a reproduction.

cells/GRID/RUN.csv, .toml   a run that has just ended: its history, and coordinates, machine and configuration
SCALE.parquet               all others: a row per run, round and column, with the same description
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fedswe.experiment.experiment import Experiment
from fedswe.grid.store import Cell, ResultStore, damaged, description, read_result, refuse_other_settings
from fedswe.results.files import Claim
from fedswe.results.history import History
from fedswe.results.table import append, select
from fedswe_paper.cell import PaperCell

FINER = "fp32"  # end of the grid of runs repeated in float32, as the sum of three products in tf32


@dataclass(frozen=True)
class FinishedRun:
    cell: PaperCell
    history: History
    bound: float = 0.0  # on the norm of every stochastic gradient; 0: none, as in the paper's experiments

    def column(self, output: str | None = None, score: str = "test_accuracy") -> str:
        """Of the history: a score of this model; None: of the one that the profile evaluates."""
        return f"{output or self.cell.judged_by}_{score}"

    def score(self, column: str, output: str | None = None) -> float:
        """A score in percent, averaged over the tail of the run, at the model that the profile evaluates.

        NaN where the run diverged: the accuracy of such a model, that of one class, is no measurement.
        """
        if self.diverged:
            return math.nan
        tail = self.cell.experiment().evaluate.tail
        return 100 * self.history.tail_mean(self.column(output, column), tail)

    def curve(self, column: str) -> npt.NDArray[np.float64]:
        """A column at every evaluation; NaN from the one on at which the run has diverged."""
        values = self.history[column].astype(np.float64)
        values[self.finite_rows :] = math.nan
        return values

    @cached_property
    def finite_rows(self) -> int:
        """Evaluations before the first one with a loss that is not finite."""
        losses = [self.history[name] for name in self.history.columns if name.endswith("_loss")]
        return int(np.argmin(np.append(np.isfinite(losses).all(axis=0), False)))

    @property
    def last_finite(self) -> int:
        """The last round at which every loss was finite."""
        return int(self.history.rows[max(self.finite_rows - 1, 0)]["round"])

    @property
    def diverged(self) -> bool:
        """Whether a model ended in NaN or infinity."""
        return self.finite_rows < len(self.history.rows)


@dataclass(frozen=True)
class CampaignStore(ResultStore):
    """A cell that has ended is two small files, until `merge` puts it into the file of its scale."""

    def finished(self, cell: Cell) -> bool:
        if super().finished(cell):  # asked first: a cell is in the campaign before its files are removed
            return True
        file, (grid, run) = campaign(self.path, cell.name), cell.name.split("/")
        text = _descriptions(file, file.stat().st_mtime_ns if file.is_file() else 0).get((grid, run))
        if text is not None:
            refuse_other_settings(file, json.loads(text), cell.experiment)
        return text is not None


@lru_cache(maxsize=8)
def _descriptions(file: Path, changed: int) -> dict[tuple[str, str], str]:
    found = select(file)
    rows = found.drop_duplicates(["grid", "run"]) if len(found) else found
    return {(row.grid, row.run): row.description for row in rows.itertuples()}


def campaign(out: Path, grid: str) -> Path:
    return out / f"{grid.partition('-')[0]}.parquet"


def merge(out: Path) -> None:
    """Put the cells that have ended into the files of their scales; the caller holds the lock of `publishing`."""
    by_file: dict[Path, list[Path]] = {}
    for path in sorted((out / "cells").glob("*/*.csv")):
        by_file.setdefault(campaign(out, path.parent.name), []).append(path)
    for file, paths in by_file.items():
        append(file, pd.concat([_long(path) for path in paths]), ["grid", "run"])
        for path in paths:
            path.unlink()
            path.with_suffix(".toml").unlink()


def _long(path: Path) -> pd.DataFrame:
    """The rows of a cell, column by column."""
    table = description(path)
    history = read_result(path, _cell(path, table)[2], table)
    rows = pd.DataFrame(history.rows).astype({"round": "int32"}).melt("round", var_name="column")
    notes = {"grid": path.parent.name, "run": path.stem, "description": json.dumps(table)}
    return rows.astype({"value": float}).assign(**notes)


def load_runs(out: Path, grid: str) -> list[FinishedRun]:
    """All finished runs of a scale and profile, such as full-released.

    With -guarded or -fp32 at its end: runs repeated as the paper did not, with a bound on the gradients or in finer
    arithmetic, which are shown and never judged.
    """
    file = campaign(out, grid)
    found = select(file, grid=grid)
    runs = []
    for _, part in found.groupby("run", observed=True) if len(found) else ():
        table = json.loads(part["description"].iloc[0])
        cell, bound, expected = _cell(file, table)
        refuse_other_settings(file, table, expected)
        runs.append(FinishedRun(cell, _history(part), bound))
    return runs


def _history(part: pd.DataFrame) -> History:
    columns = part["column"].unique()
    rounds = part["round"].to_numpy()[: len(part) // len(columns)].tolist()
    values = part["value"].to_numpy().reshape(len(columns), -1).T.tolist()
    return History(
        [{"round": at, **dict(zip(columns, row, strict=True))} for at, row in zip(rounds, values, strict=True)]
    )


def _cell(path: Path, table: dict[str, Any]) -> tuple[PaperCell, float, Experiment]:
    """What a description is of: the cell, its bound on the gradients, and its experiment."""
    try:
        coordinates = dict(table["cell"])
        bound = float(coordinates.pop("guard", 0.0))
        cell = PaperCell(**coordinates)
        expected = cell.experiment()
    except (KeyError, TypeError, ValueError):
        raise damaged(path) from None
    return cell, bound, replace(expected, local=replace(expected.local, clip=bound)) if bound else expected


@contextmanager
def publishing(out: Path) -> Iterator[None]:
    """One process at a time writes reports, from all runs that have ended; others wait."""
    claim = Claim(out / "work" / "reports.lock", wait=True)
    try:
        merge(out)
        yield
    finally:
        claim.release()
