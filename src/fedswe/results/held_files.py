"""Which files are locked by a running process, asked without touching a lock.

Whoever takes a lock only to see whether it is free makes a process that starts at this moment fail. Linux lists all
locks in /proc/locks.
"""

from __future__ import annotations

import os
from pathlib import Path

_LOCKS = Path("/proc/locks")

File = tuple[int, int, int]  # major and minor number of the device, inode


def held_files() -> set[File] | None:
    """The files that are locked now; None where the system does not say."""
    try:
        lines = _LOCKS.read_text().splitlines()
    except OSError:
        return None
    found = set()
    for line in lines:
        # 3: FLOCK  ADVISORY  WRITE 5891 fe:00:5833720 0 EOF; one that waits for a lock has -> after the number
        words = line.split()
        if len(words) > 5 and words[1] == "FLOCK":
            major, minor, inode = words[5].split(":")
            found.add((int(major, 16), int(minor, 16), int(inode)))
    return found


def file_of(found: os.stat_result) -> File:
    return os.major(found.st_dev), os.minor(found.st_dev), found.st_ino
