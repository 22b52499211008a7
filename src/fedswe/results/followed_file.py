"""Files that another process writes while a command shows what is new in them."""

from __future__ import annotations

import os
from pathlib import Path

_MOST = 1 << 21  # bytes that are read in one look


class FollowedFile:
    """The lines that were added to a file since the last look; of many, the first, and the others in later looks.

    A file that was cut back or replaced, by a restart or a rotation, is read from its start; `starts` counts how often
    a reading began there.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._seen = path, (0, 0, 0)  # inode, size and time of change at the last look
        self._read, self._last = 0, b""  # bytes that were read, and the last line of them
        self.starts = 0

    def new_lines(self) -> list[bytes]:
        """The new complete lines."""
        try:
            with open(self._path, "rb") as file:
                found = os.fstat(file.fileno())
                now = (found.st_ino, found.st_size, found.st_mtime_ns)
                if now == self._seen:
                    return []
                same = found.st_ino == self._seen[0] and found.st_size >= self._read
                file.seek(self._read - len(self._last) if same else 0)
                text = file.read(_MOST + len(self._last))
                if file.tell() < found.st_size:
                    now = (found.st_ino, -1, 0)  # there is more to read
        except (FileNotFoundError, NotADirectoryError):
            if not self._read:
                return []  # no line of it was ever given
            text, same, now = b"", False, (0, 0, 0)
        if same and not text.startswith(self._last):  # cut back and grown again
            self._seen = (0, 0, 0)
            return self.new_lines()
        self.starts += not same
        text = text[len(self._last) :] if same else text
        whole = text[: text.rfind(b"\n") + 1]
        self._seen, self._read = now, (self._read if same else 0) + len(whole)
        lines = whole.split(b"\n")[:-1]
        self._last = lines[-1] + b"\n" if lines else (self._last if same else b"")
        return lines
