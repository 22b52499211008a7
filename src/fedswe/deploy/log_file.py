"""The server's log: text from outside is made printable, and the file is rotated.

Reasons, error messages and names come from clients. A filter on the logger escapes what is not printable (newlines,
control characters, terminal sequences, characters that change the direction of writing) before any handler sees it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from fedswe.errors import FedsweError, printable

LOG = "server.log"
_BYTES, _COPIES = 5_000_000, 3  # of the file before it is renamed to server.log.1, and of such copies
_LONGEST = 1000  # characters of a message

log = logging.getLogger("fedswe.deploy")


class _Printable(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        record.msg, record.args = printable(text if len(text) <= _LONGEST else text[:_LONGEST] + "..."), None
        return True


class _Lines(logging.Formatter):
    def formatException(self, ei: _ExcInfo) -> str:
        """Indented, so that a line of a traceback is not taken for a message."""
        return "\n".join(f"    {printable(line)}" for line in super().formatException(ei).splitlines())


class _Objects(logging.Formatter):
    """One JSON object per line: time, level, event, round, client, message, and the traceback of an exception."""

    def format(self, record: logging.LogRecord) -> str:
        found: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", "note"),
            "round": getattr(record, "round", None),
            "client": getattr(record, "client", None),
            "message": record.getMessage(),
        }
        if record.exc_info:
            found["traceback"] = [printable(line) for line in self.formatException(record.exc_info).splitlines()]
        return json.dumps(found)


def fields(event: str, t: int | None = None, client: int = -1) -> dict[str, Any]:
    """What a message is about, for a log in JSON: ``log.warning(..., extra=fields("rejected", t, client))``."""
    return {"event": event, "round": t, "client": client if client >= 0 else None}


_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

log.addFilter(_Printable())


def warning_text(line: str) -> str:
    """A line of the log as text with its time; empty for one that needs no attention."""
    try:
        found = json.loads(line)
        return "" if found["level"] == "info" else f"{found['time']} {found['message']}"
    except (ValueError, TypeError, KeyError, RecursionError):
        return line


@contextmanager
def log_file(directory: Path, form: Literal["text", "json"] = "text") -> Iterator[None]:
    """Write what the server logs to server.log as well; in JSON also what needs no attention, such as every commit."""
    path = directory / LOG
    try:
        handler = RotatingFileHandler(path, maxBytes=_BYTES, backupCount=_COPIES, encoding="utf-8")
    except OSError as error:
        raise FedsweError(f"cannot write {path}: {error.strerror}; check its permissions") from None
    handler.setFormatter(_Lines("%(asctime)s %(message)s") if form == "text" else _Objects())
    before = log.level
    if form == "json":
        log.setLevel(logging.INFO)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)
        handler.close()
