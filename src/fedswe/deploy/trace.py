"""The availability that really happened: A^t, the clients merged in each round, as the simulator can replay it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedswe.availability.schedule import Bools
from fedswe.deploy import ledger
from fedswe.deploy.ledger import Entry
from fedswe.errors import require
from fedswe.results.files import write_whole


def attendance(entries: Sequence[Entry], m: int) -> Bools:
    """The mask [rounds, m]."""
    mask = np.zeros((len(entries), m), dtype=bool)
    for entry in entries:
        mask[entry.t, list(entry.merged)] = True
    return mask


def trace(directory: Path | str, out: Path | str) -> Bools:
    """Write the file that availability.name=mask availability.file=OUT replays; returns the mask."""
    title, entries, _ = ledger.read(Path(directory) / ledger.FILE)
    require(entries, f"{directory}: no round was committed yet, there is nothing to export")
    mask = attendance(entries, title.m)
    lines = [",".join("01"[there] for there in row) for row in mask.astype(int)]
    write_whole(Path(out), "\n".join(lines) + "\n")
    return mask
