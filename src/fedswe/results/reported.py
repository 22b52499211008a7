"""Which clients reported in every round of a run, as a text file that grows with it.

The first line has the number of clients; every further line is a round: a bit per client, in hexadecimal digits,
client 0 in the highest bit of the first. All lines of rounds have the same length, so the size at a checkpoint follows
from its round.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedswe.results.lines import Lines

FILE = "reported.txt"
_MOST = 2000  # clients; of more nothing is recorded, since nobody looks at a million of them one by one

Bools = npt.NDArray[np.bool_]


class ReportedLines:
    """Written while a run goes on. Rounds are collected, and written with the next evaluation or checkpoint."""

    def __init__(self, lines: Lines) -> None:
        self._lines, self._waiting = lines, list[str]()

    @classmethod
    def open(cls, directory: Path, m: int, t: int) -> ReportedLines | None:
        """Continue after t rounds; None if there are too many clients, or the rounds before were not recorded."""
        path, title = directory / FILE, f"clients {m}\n"
        keep = len(title) + t * (2 * _bytes(m) + 1) if t else 0
        if m > _MOST or (keep and (not path.is_file() or path.stat().st_size < keep)):
            path.unlink(missing_ok=True)
            return None
        lines = Lines(path, keep)
        if not t:
            lines.append(title)
        return cls(lines)

    def add(self, reported: Bools) -> None:
        self._waiting.append(np.packbits(reported).tobytes().hex() + "\n")

    def write(self) -> None:
        self._lines.append("".join(self._waiting))
        self._waiting.clear()

    def close(self) -> None:
        self._lines.close()


def read_reported(path: Path) -> Bools | None:
    """Which clients reported, [rounds, clients], of a file that may still grow; None if it is missing or damaged."""
    try:
        title, *lines = path.read_text("ascii").splitlines()
        m = int(title.removeprefix("clients "))
        rounds = [bytes.fromhex(line) for line in lines if len(line) == 2 * _bytes(m)]
    except (OSError, ValueError):
        return None
    if not rounds or not 0 < m <= _MOST:
        return None
    bits = np.frombuffer(b"".join(rounds), np.uint8).reshape(len(rounds), -1)
    return np.unpackbits(bits, axis=1, count=m).astype(bool)


def _bytes(m: int) -> int:
    return -(-m // 8)
