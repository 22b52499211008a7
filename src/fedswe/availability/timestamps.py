"""ISO 8601 timestamps as seconds since 1970, for columns of millions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from fedswe.availability.schedule import Bools, Floats

WIDTH = 48  # bytes of a text that may be a timestamp
_BLOCK = 1 << 18  # timestamps read at once
_HEAD = 19  # bytes of 2026-01-31T23:59:59
_MARKS = {4: b"-", 7: b"-", 10: b"T ", 13: b":", 16: b":"}


def seconds(text: str) -> tuple[float, bool]:
    """One timestamp in seconds, and whether it has a zone; one without is taken as UTC. ValueError if it is none."""
    return moment(datetime.fromisoformat(text.strip()))


def moment(time: datetime) -> tuple[float, bool]:
    zoned = time.tzinfo is not None
    return (time if zoned else time.replace(tzinfo=UTC)).timestamp(), zoned


def column_seconds(texts: npt.NDArray[np.bytes_]) -> tuple[Floats, Bools]:
    """The same for a column; where a text is no timestamp, the seconds are NaN."""
    # In blocks, as texts need much memory.
    blocks = [_block_seconds(texts[i : i + _BLOCK]) for i in range(0, len(texts), _BLOCK)]
    return np.concatenate([block[0] for block in blocks]), np.concatenate([block[1] for block in blocks])


def _block_seconds(texts: npt.NDArray[np.bytes_]) -> tuple[Floats, Bools]:
    texts = np.ascontiguousarray(texts.astype(f"S{WIDTH}"))
    regular = _regular(texts)
    result, zoned = np.full(len(texts), np.nan), np.ones(len(texts), dtype=bool)
    try:
        result[regular], zoned[regular] = _split(texts[regular])
    except ValueError:  # a month 13, for example: one by one, to find it
        regular = np.zeros(len(texts), dtype=bool)
    for i in np.flatnonzero(~regular):
        try:
            result[i], zoned[i] = seconds(texts[i].decode())
        except ValueError:
            continue
    return result, zoned


def _regular(texts: npt.NDArray[Any]) -> Bools:
    """Which texts begin as 2026-01-31T23:59:59 does."""
    characters = texts.view(np.uint8).reshape(len(texts), WIDTH)
    regular = np.ones(len(texts), dtype=bool)
    for position in range(_HEAD):
        marks = list(_MARKS.get(position, b"0123456789"))
        regular &= np.isin(characters[:, position], marks)
    return regular


def _split(texts: npt.NDArray[Any]) -> tuple[Floats, Bools]:
    """Date and time by numpy; what follows (fraction, zone) is one of few texts, each read once."""
    characters = texts.view(np.uint8).reshape(len(texts), WIDTH)
    whole = np.ascontiguousarray(characters[:, :_HEAD]).view(f"S{_HEAD}")[:, 0]
    rest = np.ascontiguousarray(characters[:, _HEAD:]).view(f"S{WIDTH - _HEAD}")[:, 0]
    kinds = np.unique(rest)
    read = [seconds("1970-01-01T00:00:00" + kind.decode()) for kind in kinds]
    which = np.searchsorted(kinds, rest)
    more, zoned = np.array([r[0] for r in read]), np.array([r[1] for r in read], dtype=bool)
    return whole.astype("datetime64[s]").astype(np.float64) + more[which], zoned[which]
