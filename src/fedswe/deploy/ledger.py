"""The ledger: one line of JSON per committed round. Appending a line is the commit; the rest is named after it.

The first line names the run. Every other line says who was merged in the round and since when they had been away,
what was turned away and why, digests of the new server model and of the reply, and what was moved and how long the
durable writes took.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fedswe.deploy import durable_files as durable
from fedswe.errors import FedsweError

FILE = "ledger.jsonl"


@dataclass(frozen=True)
class Title:
    """The first line."""

    run: str  # a random name of this run
    plan: str  # digest of what both ends agree on
    start: str  # digest of x^0
    m: int


@dataclass(frozen=True)
class Entry:
    """A committed round."""

    t: int
    merged: dict[int, int]  # A^t: client -> the round of its merge before this one (-1: never), as it reported it
    model: str  # digest of x^{t+1}
    reply: str  # digest of the reply
    declined: int = 0
    rejected: dict[int, dict[str, int]] = field(default_factory=dict)  # client -> reason -> how often
    traffic: dict[str, int] = field(default_factory=dict)  # "down job", "up report", ... -> bytes since the last commit
    seconds: float = 0.0  # durable writes of this round (and the last line's own fsync)
    moves: int = 0  # client moves merged in all rounds so far
    farthest: float = 0.0  # the longest of them


def read(path: Path) -> tuple[Title, list[Entry], int]:
    """Title, entries and the bytes they take; a torn last line does not count, as it was never committed."""
    try:
        *lines, torn = path.read_bytes().split(b"\n")
    except OSError:
        raise FedsweError(f"{path.parent} holds no deployment (no {path.name})") from None
    entries: list[Entry] = []
    number = 0
    try:
        title = Title(**json.loads(lines[0]))
        size = len(lines[0]) + 1
        for number, line in enumerate(lines[1:], 1):
            entry = _entry(json.loads(line))
            if entry.t != number - 1:
                raise ValueError("out of order")
            entries.append(entry)
            size += len(line) + 1
    except (ValueError, TypeError, KeyError, AttributeError, IndexError):
        if 0 < number == len(lines) - 1 and not torn:
            return title, entries, size
        raise FedsweError(f"{path}: line {number + 1} is damaged: restore the directory from a backup") from None
    return title, entries, size


def _entry(table: dict[str, Any]) -> Entry:
    merged = {int(i): int(since) for i, since in table.pop("merged").items()}
    rejected = {int(i): why for i, why in table.pop("rejected").items()}
    return Entry(merged=merged, rejected=rejected, **table)


def begin(path: Path, title: Title) -> None:
    """Write the first line: from then on the run can be resumed."""
    durable.write_whole(path, json.dumps(asdict(title)) + "\n")


class Ledger:
    """The ledger of a running server."""

    def __init__(self, path: Path, size: int) -> None:
        """Continue after the first `size` bytes; what follows them was never committed."""
        self._path, self._size = path, size
        self._handle = os.open(path, os.O_RDWR)
        os.ftruncate(self._handle, size)

    def append(self, entry: Entry) -> None:
        """Commit a round."""
        line = json.dumps(asdict(entry)).encode() + b"\n"
        self._size = durable.append(self._path, self._handle, self._size, line)

    def close(self) -> None:
        os.close(self._handle)
