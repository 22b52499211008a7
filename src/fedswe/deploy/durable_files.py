"""Writes that survive a crash: packets as whole files, and lines appended to a log."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from fedswe.errors import FedsweError
from fedswe.results.files import cannot_write
from fedswe.results.locks import Claim, in_use, is_claimed

if TYPE_CHECKING:
    from fedswe.deploy.packet import Packet

_LOCK = "process.lock"

_LARGEST = 1 << 36  # bytes of a file that is read


def claim(folder: Path) -> Claim:
    """The right to use a folder, until it is released or the process ends."""
    found = Claim(folder / _LOCK)
    if not found.granted:
        found.release()
        raise in_use(folder)
    return found


def in_use_now(folder: Path) -> bool | None:
    """Whether a process has the right to use a folder; None if this process may not ask."""
    return is_claimed(folder / _LOCK)


def load(path: Path, kind: str) -> Packet | None:
    """The packet saved at `path`; None if there is none, or if it is damaged or of another kind."""
    from fedswe.deploy.packet import Packet  # imports torch, which who reads a ledger does not need

    try:
        packet = Packet.from_bytes(read_whole(path))
    except (OSError, FedsweError):
        return None
    return packet if packet.kind == kind else None


def read_whole(path: Path) -> bytes:
    """The content of a plain file. An OSError for anything else: a pipe would block, a device never ends."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # without it, a pipe blocks here
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST:
            raise OSError(errno.EINVAL, "not a plain file, or too large", str(path))
        return file.read()


def append(path: Path, handle: int, size: int, line: bytes) -> int:
    """Write a line at offset `size` and fsync; returns the new size. An incomplete line is removed again."""
    try:
        written = 0
        while written < len(line):
            written += os.pwrite(handle, line[written:], size + written)
        os.fsync(handle)
    except OSError as error:
        os.ftruncate(handle, size)
        raise cannot_write(path, error) from None
    return size + len(line)
