"""Who reported in which round, as a picture of bounded size: bins of rounds times groups of clients."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedswe.live.plain_files import GrowingFile
from fedswe.results.reported import Bools, clients_in, reported_in

BINS, GROUPS = 400, 200  # at most
_LARGEST = 1 << 28  # bytes of a reported.txt that is read


class Strip:
    """The share of rounds in which each client, or group of clients, reported; of as many rounds in every bin.

    Bins are joined two by two when there are too many, and ``generation`` changes.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.clear(0)

    def clear(self, m: int) -> None:
        self.m, self.rounds, self.width = m, 0, 1
        self._groups = np.arange(m) * min(m, GROUPS) // max(m, 1)
        self._sizes = np.bincount(self._groups) if m else np.zeros(0, int)
        self._bins: list[npt.NDArray[np.int64]] = []  # reports in each group
        self._reports = np.zeros(m, int)
        self.generation += 1

    def add(self, reported: Bools) -> None:
        """The next round."""
        counts = np.bincount(self._groups[reported], minlength=len(self._sizes))
        self._reports += reported
        if self.rounds % self.width == 0:
            if len(self._bins) == BINS:
                self._bins = [a + b for a, b in zip(self._bins[::2], self._bins[1::2], strict=True)]
                self.width *= 2
                self.generation += 1
            self._bins.append(counts)
        else:
            self._bins[-1] = self._bins[-1] + counts
        self.rounds += 1

    @property
    def position(self) -> tuple[int, int]:
        return self.generation, self.rounds

    def since(self, position: tuple[int, int]) -> dict[str, Any]:
        """What a reader with this position needs: everything, or the bins from the one that was growing on."""
        generation, rounds = position
        new = generation != self.generation
        first = 0 if new else max(rounds - 1, 0) // self.width
        message = {
            "new": new,
            "rounds": self.rounds,
            "first": first,
            "bins": [self._share(i) for i in range(first, len(self._bins))],
            "missed": (self.rounds - np.bincount(self._groups, self._reports) / self._sizes).round(1).tolist(),
        }
        return {**message, "m": self.m, "width": self.width, "sizes": self._sizes.tolist()} if new else message

    def _share(self, bin_: int) -> str:
        """Percent of each group, a byte each."""
        rounds = min(self.width, self.rounds - bin_ * self.width)
        percent = (100 * self._bins[bin_] / (rounds * self._sizes)).round().astype(np.uint8)
        return base64.b64encode(percent.tobytes()).decode()


class RecordedStrip(Strip):
    """Of a run directory, which records who reported."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = GrowingFile(path, _LARGEST)

    def look(self) -> None:
        anew, lines = self._file.look()
        if anew:
            self.clear(0)
        for line in lines:
            if not self.m:
                self.clear(clients_in(line) or 0)
            elif (reported := reported_in(line, self.m)) is not None:
                self.add(reported)
