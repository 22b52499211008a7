"""Files that are either complete or absent: written under another name, fsynced, renamed."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from fedswe.errors import FedsweError, require


def write_whole(path: Path, content: str | bytes) -> None:
    """Replace `path` by `content`, or leave it as it was."""
    require(not path.is_dir(), f"cannot write {path}: it is a folder, name a file")
    aside = aside_of(path)
    try:
        with open(aside, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
        _sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):  # it may not exist
            aside.unlink()
        raise cannot_write(path, error) from None


def aside_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power failure."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def cannot_write(path: Path, error: OSError) -> FedsweError:
    return FedsweError(f"cannot write {path}: {error.strerror}; free space, or choose another place")
