"""Writes that survive a crash: packets as whole files, and lines appended to a log."""

from __future__ import annotations

import os
from pathlib import Path

from fedswe.deploy.packet import Packet
from fedswe.errors import FedsweError
from fedswe.results.files import cannot_write
from fedswe.results.files import write_whole as write_whole
from fedswe.results.locks import Claim, in_use


def claim(folder: Path) -> Claim:
    """The right to use a folder, until it is released or the process ends."""
    found = Claim(folder / "process.lock")
    if not found.granted:
        found.release()
        raise in_use(folder)
    return found


def save(path: Path, packet: Packet) -> None:
    """Write, fsync, rename."""
    write_whole(path, packet.to_bytes())


def load(path: Path, kind: str) -> Packet | None:
    """The packet saved at `path`; None if there is none, or if it is damaged or of another kind."""
    try:
        packet = Packet.from_bytes(path.read_bytes())
    except (OSError, FedsweError):
        return None
    return packet if packet.kind == kind else None


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
