"""The server's log: text from outside is made printable, and the file is rotated.

Reasons, error messages and names come from clients. A filter on the logger escapes what is not printable (newlines,
control characters, terminal sequences, characters that change the direction of writing) before any handler sees it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType

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


_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]

log.addFilter(_Printable())


@contextmanager
def log_file(directory: Path) -> Iterator[None]:
    """Write what the server logs to server.log as well."""
    path = directory / LOG
    try:
        handler = RotatingFileHandler(path, maxBytes=_BYTES, backupCount=_COPIES, encoding="utf-8")
    except OSError as error:
        raise FedsweError(f"cannot write {path}: {error.strerror}; check its permissions") from None
    handler.setFormatter(_Lines("%(asctime)s %(message)s"))
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        handler.close()
