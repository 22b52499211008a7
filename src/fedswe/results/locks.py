"""File locks, with one policy for run directories and cells of a grid.

A locked path is in use by another process. On a file system without locks the work goes on after one warning line.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from pathlib import Path

from fedswe.errors import FedsweError
from fedswe.results.files import cannot_write

_WARNED = "FEDSWE_NO_LOCKS"  # in the environment, so that worker processes do not warn again
_PATIENCE = 5.0  # seconds that a claim waits for those who look (`is_claimed`): each has the lock for a moment


class Claim:
    """The right of one process to work on something, by a lock on a file. It ends with `release`, or with the process.

    Where the file system has no locks, everyone who asks has the right.
    """

    def __init__(self, path: Path, wait: bool = False) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise cannot_write(path, error) from None
        try:
            self.granted = _flock(self._handle, fcntl.LOCK_EX, wait) or _after_those_who_look(self._handle)
        except OSError as error:
            self.granted = True
            if _WARNED not in os.environ:
                os.environ[_WARNED] = "1"
                print(
                    f"warning: the file system of {path} has no locks ({error.strerror}): "
                    "make sure that no other process uses it",
                    file=sys.stderr,
                )

    def release(self) -> None:
        os.close(self._handle)


def is_claimed(path: Path) -> bool:
    """Whether a process has a claim on a path now, as far as the file system says.

    The lock is shared for a moment, so that those who look do not take each other for a process at work, and no file is
    made. A process that wants the claim in this moment waits for its end.
    """
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        return not _flock(handle, fcntl.LOCK_SH)
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(handle)


def in_use(path: Path) -> FedsweError:
    return FedsweError(f"{path} is in use by another process: wait for it, or stop it")


def _after_those_who_look(handle: int) -> bool:
    """Lock, unless another process has a claim, which is not shared."""
    end = time.monotonic() + _PATIENCE
    while _flock(handle, fcntl.LOCK_SH) and time.monotonic() < end:
        fcntl.flock(handle, fcntl.LOCK_UN)
        time.sleep(0.001)
        if _flock(handle, fcntl.LOCK_EX):
            return True
    return False


def _flock(handle: int, kind: int, wait: bool = False) -> bool:
    """Whether the lock was free for this kind of locking."""
    try:
        fcntl.flock(handle, kind if wait else kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
