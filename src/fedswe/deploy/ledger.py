"""The ledger: one line of JSON per committed round. Appending the line commits the round.

The first line identifies the run. Each further line records which clients were merged in the round and the round each
of them was merged in before, which messages were rejected and why, digests of the new server model and of the reply,
the bytes sent and received, and the time of the durable writes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedswe.availability.schedule import Bools
from fedswe.deploy import durable_files
from fedswe.errors import FedsweError

FILE = "ledger.jsonl"


@dataclass(frozen=True)
class Title:
    """The first line."""

    run: str  # random identifier of this run
    plan: str  # digest of the configuration that server and clients share
    start: str  # digest of x^0
    m: int


@dataclass(frozen=True)
class Entry:
    """A committed round."""

    t: int
    merged: dict[int, int]  # A^t: client -> the round it was merged in before this one (-1: never)
    model: str  # digest of x^{t+1}
    reply: str  # digest of the reply
    declined: int = 0
    rejected: dict[int, dict[str, int]] = field(default_factory=dict)  # client -> reason -> number of messages
    traffic: dict[str, int] = field(default_factory=dict)  # "down job", "up report", ... -> bytes since the last commit
    seconds: float = 0.0  # durable writes of this round, and the fsync of the line before
    moves: int = 0  # reports merged in all rounds so far whose distance was measured
    farthest: float = 0.0  # the largest of these distances
    available: int = 0  # clients that were connected and did not decline; 0 in ledgers of earlier versions


def read(path: Path) -> tuple[Title, list[Entry], int]:
    """Title, entries and their size in bytes. An incomplete last line is ignored: it was never committed."""
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
    merged = {int(client): int(since) for client, since in table.pop("merged").items()}
    rejected = {int(client): reasons for client, reasons in table.pop("rejected").items()}
    return Entry(merged=merged, rejected=rejected, **table)


def merged_mask(entries: Sequence[Entry], m: int) -> Bools:
    """The availability that happened, as the simulator replays it: [rounds, m], true where a client was merged."""
    mask = np.zeros((len(entries), m), dtype=bool)
    for entry in entries:
        mask[entry.t, list(entry.merged)] = True
    return mask


def begin(path: Path, title: Title) -> None:
    """Write the first line; the run can then be resumed."""
    durable_files.write_whole(path, json.dumps(asdict(title)) + "\n")


class Ledger:
    """The ledger of a running server."""

    def __init__(self, path: Path, size: int) -> None:
        """Continue after the first `size` bytes; later bytes were never committed and are removed."""
        self._path, self._size = path, size
        self._handle = os.open(path, os.O_RDWR)
        os.ftruncate(self._handle, size)

    def append(self, entry: Entry) -> None:
        """Commit a round."""
        line = json.dumps(asdict(entry)).encode() + b"\n"
        self._size = durable_files.append(self._path, self._handle, self._size, line)

    def close(self) -> None:
        os.close(self._handle)
