"""Files that are either complete or absent, and text files that grow by whole lines while a run goes on."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from fedswe.errors import FedsweError, require


def write_whole(path: Path, content: str | bytes) -> None:
    """Replace `path` by `content`, or leave it as it was: it is written under another name, fsynced, renamed."""
    require(not path.is_dir(), f"cannot write {path}: it is a folder, name a file")
    aside = path.with_name(f".{path.name}.part")
    try:
        with open(aside, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # makes the rename survive a power failure
        finally:
            os.close(folder)
    except OSError as error:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise cannot_write(path, error) from None


def cannot_write(path: Path, error: OSError) -> FedsweError:
    return FedsweError(f"cannot write {path}: {error.strerror}; free space, or choose another place")


class Lines:
    """Appends to a file. A checkpoint keeps its size, to which a resumed run truncates it (0: a new file)."""

    def __init__(self, path: Path, keep: int) -> None:
        self._path = path
        size = path.stat().st_size if path.exists() else 0
        require(size >= keep, f"{path} is shorter than its checkpoint: the run cannot be resumed")
        try:
            self._file = open(path, "ab", buffering=0)  # noqa: SIM115
            self._file.truncate(keep)
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
