"""Files of which nothing is known: a pipe would block, a large one would fill the memory."""

from __future__ import annotations

import csv
import os
import stat
from pathlib import Path

from fedswe.errors import first_line, printable
from fedswe.results.followed_file import FollowedFile


def plain(path: Path, most: int) -> os.stat_result | None:
    """The state of a plain file of at most so many bytes; None for anything else, or if there is none."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found if stat.S_ISREG(found.st_mode) and found.st_size <= most else None


class GrowingFile:
    """Such a file, which another process writes, or nothing yet."""

    def __init__(self, path: Path, most: int) -> None:
        self._path, self._most, self._file = path, most, FollowedFile(path)

    def look(self) -> tuple[bool, list[bytes]]:
        """Whether it began anew, so that its lines so far are no longer true; its new lines."""
        if plain(self._path, self._most) is None and os.path.lexists(self._path):
            return False, []
        before = self._file.starts
        lines = self._file.new_lines()
        return self._file.starts != before, lines


def text_of(path: Path, most: int) -> str:
    """The content of such a file; empty if it cannot be read."""
    if plain(path, most) is None:
        return ""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def ends_of(path: Path, most: int = 1 << 16) -> tuple[str, str]:
    """The first and the last complete line of a text file; empty where there is none."""
    try:
        with open(path, "rb") as file:
            first = file.readline(most)
            size = os.fstat(file.fileno()).st_size
            file.seek(max(size - most, 0))
            whole = file.read(most).rpartition(b"\n")[0]
    except OSError:
        return "", ""
    last = whole.rpartition(b"\n")[2] if size > len(first) else b""
    return first.decode(errors="replace").rstrip("\n"), last.decode(errors="replace")


def unreadable(error: Exception) -> str:
    """What a page shows in place of something that cannot be read."""
    return printable(f"cannot be read ({first_line(error)})")[:500]


def columns_of(header: str) -> list[str]:
    """The names in the first line of a table; none if it is damaged."""
    try:
        return next(csv.reader([header]), [])
    except csv.Error:
        return []
