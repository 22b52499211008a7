"""File locks, with one policy for run directories, cells of a grid and deployments.

A locked path is in use by another process. On a file system without locks the work goes on after one warning line.
"""

from __future__ import annotations

import fcntl
import os
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

from fedswe.errors import FedsweError
from fedswe.results.files import cannot_write

_WARNED = "FEDSWE_NO_LOCKS"  # in the environment, so that worker processes do not warn again
_PATIENCE = 5.0  # seconds that a claim waits for those who look (`is_claimed`): each has the lock for a moment


def lock(handle: int, path: Path, wait: bool = False) -> bool | None:
    """Lock an open file until it is closed: True if locked, False if another process has it, None without locks."""
    try:
        if not wait:
            return _lock_now(handle)
        fcntl.flock(handle, fcntl.LOCK_EX)
        return True
    except OSError as error:
        if _WARNED not in os.environ:
            os.environ[_WARNED] = "1"
            print(
                f"warning: the file system of {path} has no locks ({error.strerror}): "
                "make sure that no other process uses it",
                file=sys.stderr,
            )
        return None


def _lock_now(handle: int) -> bool:
    """Lock, unless another process has a claim; one that only looks is waited for."""
    end = time.monotonic() + _PATIENCE
    while not _flock(handle, fcntl.LOCK_EX):
        if not _flock(handle, fcntl.LOCK_SH):  # those who look share the lock, a claim does not
            return False
        fcntl.flock(handle, fcntl.LOCK_UN)
        if time.monotonic() > end:
            return False
        time.sleep(0.001)
    return True


def _flock(handle: int, kind: int) -> bool:
    """Whether the lock was free for this kind of locking."""
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_claimed(path: Path) -> bool | None:
    """Whether a process has a claim on a path now; None if this process may not ask.

    The lock is shared for a moment, so that those who look do not take each other for a process at work, and no file is
    made. A process that wants the claim in this moment waits for its end.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # without it, a pipe blocks here
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        return not _flock(handle, fcntl.LOCK_SH)
    except OSError:  # a file system without locks
        return _is_announced(path)
    finally:
        os.close(handle)


def in_use(path: Path) -> FedsweError:
    return FedsweError(f"{path} is in use by another process: wait for it, or stop it")


class Claim:
    """The right of one process to work on something, by a lock on a file. It ends with `release`, or with the process.

    Where the file system has no locks, every process that wants the right first creates a file of its own, named after
    itself, and then lists such files: it has the right if no other running process has one. Two processes that do this
    at the same moment may both give up, but never both have the right. Whether a process on another machine runs is
    unknown; it counts as running until its file is deleted.
    """

    def __init__(self, path: Path, wait: bool = False) -> None:
        self._file: Path | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise cannot_write(path, error) from None
        locked = lock(self._handle, path, wait)
        self.granted = self._announce(path) if locked is None else locked

    def _announce(self, path: Path) -> bool:
        own = path.with_name(f"{_here(path)}.{os.getpid()}.{_started(os.getpid())}")
        try:
            os.close(os.open(own, os.O_CREAT | os.O_EXCL, 0o644))
        except FileExistsError:
            return False  # this process has it already
        except OSError as error:
            raise cannot_write(own, error) from None
        self._file = own
        return not _is_announced(path, own)

    def release(self) -> None:
        if self._file is not None:
            self._file.unlink(missing_ok=True)
        os.close(self._handle)


def _here(path: Path) -> str:
    return f"{path.name}.{socket.gethostname()}"


def _is_announced(path: Path, own: Path | None = None) -> bool:
    """Whether a running process has a file of its own beside the path, besides this one."""
    others = [p for p in path.parent.iterdir() if p.name.startswith(f"{path.name}.") and p != own]
    return any(_is_running(other, _here(path)) for other in others)


def _is_running(announcement: Path, here: str) -> bool:
    """Whether the process that created the file is running; removes the file of one that has ended."""
    where, process, started = announcement.name.rsplit(".", 2)
    if where != here or _started(int(process)) == started:
        return True
    with suppress(OSError):
        announcement.unlink()
    return False


def _started(process: int) -> str:
    """When a process started, in clock ticks since the machine did; "" for a process that is not running."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        pass
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return ""
    except OSError:
        pass
    return "0"  # running, start time unknown
