"""Folders that only their owner can read."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from fedswe.errors import warn

UMASK = 0o077


def make_private(folder: Path) -> None:
    """Take the permissions of other users from a folder and all that is in it; make the folder if it can be made.

    New files of this process and its child processes are private from now on.
    """
    os.umask(UMASK)
    with suppress(OSError):  # whoever writes to it says what is wrong; a client works without a folder
        folder.mkdir(parents=True, exist_ok=True)
    for path in (folder, *folder.rglob("*")):
        with suppress(FileNotFoundError):  # removed meanwhile
            _tighten(path)


def _tighten(path: Path) -> None:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode) or not mode & UMASK:
        return
    try:
        path.chmod(stat.S_IMODE(mode) & ~UMASK)
    except FileNotFoundError:
        raise
    except OSError:  # of another user, or a file system that cannot be written
        warn(f"other users can read {path}: take their permissions away with chmod -R go= {path}")
