"""The runs that are finished so far, in the directory of a reproduction."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedswe.grid.store import damaged, description, read_result
from fedswe.results.history import History
from fedswe.results.locks import Claim
from fedswe_paper.cell import PaperCell


@dataclass(frozen=True)
class FinishedRun:
    cell: PaperCell
    history: History

    def score(self, column: str, output: str | None = None) -> float:
        """A score in percent, averaged over the tail of the run, at the model that the profile evaluates."""
        tail = self.cell.experiment().evaluate.tail
        return 100 * self.history.tail_mean(f"{output or self.cell.judged_by}_{column}", tail)

    @property
    def diverged(self) -> bool:
        """Whether a model ended in NaN or infinity; its accuracy, that of one class, does not tell."""
        return not all(math.isfinite(value) for name, value in self.history.last.items() if name.endswith("_loss"))


def load_runs(out: Path, scale: str, profile: str) -> list[FinishedRun]:
    """All finished runs of a scale and profile."""
    return [_read(path) for path in sorted((out / "cells" / f"{scale}-{profile}").glob("*.csv"))]


def _read(path: Path) -> FinishedRun:
    table = description(path)
    try:
        cell = PaperCell(**table["cell"])
        expected = cell.experiment()
    except (KeyError, TypeError, ValueError):
        raise damaged(path) from None
    return FinishedRun(cell, read_result(path, expected, table))


@contextmanager
def publishing(out: Path) -> Iterator[None]:
    """One process at a time writes reports; others wait."""
    claim = Claim(out / "work" / "reports.lock", wait=True)
    try:
        yield
    finally:
        claim.release()
