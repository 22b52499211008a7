"""The runs that are finished so far, in the directory of a reproduction."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedswe.grid.store import damaged, description, read_result
from fedswe.results.history import History, Row
from fedswe.results.locks import Claim
from fedswe_paper.cell import PaperCell


@dataclass(frozen=True)
class FinishedRun:
    cell: PaperCell
    history: History
    bound: float = 0.0  # on the norm of every stochastic gradient; 0: none, as in the paper's experiments

    def score(self, column: str, output: str | None = None) -> float:
        """A score in percent, averaged over the tail of the run, at the model that the profile evaluates.

        NaN where the run diverged: the accuracy of such a model, that of one class, is no measurement.
        """
        if self.diverged:
            return math.nan
        tail = self.cell.experiment().evaluate.tail
        return 100 * self.history.tail_mean(f"{output or self.cell.judged_by}_{column}", tail)

    def curve(self, column: str) -> npt.NDArray[np.float64]:
        """A column at every evaluation; NaN from the one on at which the run has diverged."""
        values = self.history[column].astype(np.float64)
        values[self.finite_rows :] = math.nan
        return values

    @cached_property
    def finite_rows(self) -> int:
        """Evaluations before the first one with a loss that is not finite."""
        rows = self.history.rows
        return next((i for i, row in enumerate(rows) if _lost(row)), len(rows))

    @property
    def diverged(self) -> bool:
        """Whether a model ended in NaN or infinity."""
        return self.finite_rows < len(self.history.rows)


def _lost(row: Row) -> bool:
    return not all(math.isfinite(value) for name, value in row.items() if name.endswith("_loss"))


def load_runs(out: Path, scale: str, profile: str) -> list[FinishedRun]:
    """All finished runs of a scale and profile."""
    return [_read(path) for path in sorted((out / "cells" / f"{scale}-{profile}").glob("*.csv"))]


FINER = "fp32"  # end of the folder of these runs


def load_repeated(out: Path, scale: str, profile: str, how: str) -> list[FinishedRun]:
    """Runs repeated as the paper did not: shown, never judged.

    BOUNDED: with a bound on every stochastic gradient. FINER: float32 by three products in tf32.
    """
    return [_read(path) for path in sorted((out / "cells" / f"{scale}-{profile}-{how}").glob("*.csv"))]


def _read(path: Path) -> FinishedRun:
    table = description(path)
    try:
        coordinates = dict(table["cell"])
        bound = float(coordinates.pop("guard", 0.0))
        cell = PaperCell(**coordinates)
        expected = cell.experiment()
    except (KeyError, TypeError, ValueError):
        raise damaged(path) from None
    if bound:
        expected = replace(expected, local=replace(expected.local, clip=bound))
    return FinishedRun(cell, read_result(path, expected, table), bound)


@contextmanager
def publishing(out: Path) -> Iterator[None]:
    """One process at a time writes reports; others wait."""
    claim = Claim(out / "work" / "reports.lock", wait=True)
    try:
        yield
    finally:
        claim.release()
