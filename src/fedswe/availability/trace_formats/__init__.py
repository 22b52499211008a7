"""Traces in the formats of others: FedScale's pickle, FLASH's JSON, .avt, and events of the Failure Trace Archive."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fedswe.availability.trace_formats import avt, failure_trace, fedscale, flash
from fedswe.availability.trace_formats.spans import Trace
from fedswe.errors import FedsweError

__all__ = ["Trace", "reader_of"]

Reader = Callable[[Path], Trace]


def reader_of(path: Path) -> Reader | None:
    """The reader for a file, by its name or its first bytes; None for a table with client, start, end."""
    if path.suffix.lower() == ".avt":
        return avt.read
    try:
        with path.open("rb") as stream:
            head = stream.read(4096)
    except OSError as error:
        raise FedsweError(f"cannot read {path}: {error.strerror}") from None
    readers: dict[Reader, Callable[[bytes], bool]] = {
        fedscale.read: fedscale.recognised,
        flash.read: flash.recognised,
        failure_trace.read: failure_trace.recognised,
    }
    return next((read for read, recognised in readers.items() if recognised(head)), None)
