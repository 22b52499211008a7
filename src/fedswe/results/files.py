"""Files that are complete or absent, text files that grow by whole lines, and locks: a file is in use by one process.

On a file system without locks the work goes on after one warning line.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from fedswe.errors import FedsweError, require

_WARNED = "FEDSWE_NO_LOCKS"  # in the environment, so that worker processes do not warn again
_MISSING = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # of a file system without locks
_PATIENCE = 0.1  # seconds that a claim waits for those who look (`is_claimed`): each has the lock for a moment


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
    space = "" if isinstance(error, FileExistsError | NotADirectoryError) else "free space, or "
    return FedsweError(f"cannot write {path}: {error.strerror}; {space}choose another place")


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


class Claim:
    """The right of one process to work on something, by a lock on a file. It ends with `release`, or with the process.

    Where the file system has no locks, everyone who asks has the right.
    """

    def __init__(self, path: Path, wait: bool = False, patience: float = _PATIENCE) -> None:
        self._lock, self.granted = FileLock(path, thread_local=False, fallback_to_soft=False), True
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(-1 if wait else patience, poll_interval=0.01)
        except Timeout:
            self.granted = False
        except OSError as error:
            if error.errno not in _MISSING:
                raise cannot_write(path, error) from None
            if _WARNED not in os.environ:
                os.environ[_WARNED] = "1"
                print(
                    f"warning: the file system of {path} has no locks ({error.strerror}): "
                    "make sure that no other process uses it",
                    file=sys.stderr,
                )

    def release(self) -> None:
        self._lock.release()


def is_claimed(path: Path) -> bool:
    """Whether a process has a claim on a path now, as far as the file system says. No file is made."""
    if not path.is_file():
        return False
    claim = Claim(path, patience=0)
    claim.release()
    return not claim.granted
