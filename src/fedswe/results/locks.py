"""Locks of files: a path that is locked is in use by another process.

On a file system without locks the work goes on after one warning line.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

from filelock import FileLock, Timeout

from fedswe.results.files import cannot_write

_WARNED = "FEDSWE_NO_LOCKS"  # in the environment, so that worker processes do not warn again
_MISSING = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # of a file system without locks
_PATIENCE = 0.1  # seconds that a claim waits for those who look (`is_claimed`): each has the lock for a moment


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
