"""The history of a run as it grows, thinned so that it stays small whatever the number of rounds."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fedswe.live.plain_files import GrowingFile, columns_of

POINTS = 2000  # of a curve, at most
_COLUMNS, _LONGEST = 400, 200  # columns, and characters of the name of one
_LARGEST = 1 << 28  # bytes of a history.csv that is read


class Curve:
    """Rows of history.csv: every n-th, and the last. n doubles whenever there are too many.

    ``generation`` changes when rows that were given before are no longer true: the run was resumed from a checkpoint
    and has written its rows again, or the rows were thinned.
    """

    def __init__(self, path: Path) -> None:
        self._file = GrowingFile(path, _LARGEST)
        self.generation = 0
        self._clear()

    def _clear(self) -> None:
        self.columns: list[str] = []
        self.rows: list[array[float]] = []
        self.tip: array[float] | None = None  # the last row, which need not be one of the kept ones
        self._seen, self._every = 0, 1
        self.generation += 1

    def look(self) -> None:
        """Read what was added to the file."""
        anew, lines = self._file.look()
        if anew:
            self._clear()
        for line in lines:
            self._add(line.decode(errors="replace"))

    def _add(self, text: str) -> None:
        if not self.columns:
            names = columns_of(text)[:_COLUMNS]
            self.columns = [name[:_LONGEST] for name in names] if "round" in names else [""]  # another file
            return
        try:
            row = array("d", map(float, text.split(",")[:_COLUMNS]))
        except ValueError:
            return  # damaged
        if len(row) != len(self.columns):
            return
        self.tip = row
        if self._seen % self._every == 0:
            self.rows.append(row)
        self._seen += 1
        if len(self.rows) > POINTS:
            self.rows, self._every = self.rows[::2], 2 * self._every
            self.generation += 1

    @property
    def position(self) -> tuple[int, int, int]:
        """What a reader that has seen everything remembers."""
        return self.generation, len(self.rows), self._seen

    def since(self, position: tuple[int, int, int]) -> dict[str, Any]:
        """What a reader with this position needs: everything, or the kept rows that are new to it."""
        generation, rows, _ = position
        new = generation != self.generation
        message = {
            "new": new,
            "rows": _finite(self.rows if new else self.rows[rows:]),
            "tip": next(iter(_finite([self.tip])), None) if self.tip is not None else None,
        }
        return {**message, "columns": self.columns} if new else message


def _finite(rows: Iterable[array[float]]) -> list[list[float | None]]:
    """JSON has no number that is not finite."""
    return [[float(f"{v:.6g}") if math.isfinite(v) else None for v in row] for row in rows]
