"""A text file that grows by whole lines while a run goes on."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

from fedswe.errors import require
from fedswe.results.files import cannot_write


class Lines:
    """Appends to a file. A checkpoint keeps its size, to which a resumed run truncates it (0: a new file)."""

    def __init__(self, path: Path, keep: int) -> None:
        self._path = path
        size = path.stat().st_size if path.exists() else 0
        require(size >= keep, f"{path} is shorter than its checkpoint: the run cannot be resumed")
        try:
            with ExitStack() as failed:
                self._file = failed.enter_context(open(path, "ab", buffering=0))
                self._file.truncate(keep)
                failed.pop_all()  # it stays open
        except OSError as error:
            raise cannot_write(path, error) from None
        self.bytes = keep

    def append(self, text: str) -> None:
        """Write one or several lines, or nothing."""
        content = text.encode()
        try:
            written = 0
            while written < len(content):  # a full disk takes a part first and fails on the rest
                written += self._file.write(content[written:])
        except OSError as error:
            self._file.truncate(self.bytes)  # no half-written line
            self._file.close()
            raise cannot_write(self._path, error) from None
        self.bytes += len(content)

    def sync(self) -> None:
        """Make what was written survive a power failure."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()
