"""Digests of the user's own source files and data files: a run does not continue with a file that has changed."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedswe.errors import FedsweError
from fedswe.plugins import function, place_of, source_digest
from fedswe.short_forms import instance

Digests = dict[str, str]  # sha256 by file or module


def recorded(experiment: Any) -> dict[str, Digests]:
    """What run.json says about the files that an experiment depends on: `sources` and `files`, if there are any."""
    found = {"sources": sources(experiment), "files": files(experiment)}
    return {key: digests for key, digests in found.items() if digests}


def refuse_changed(before: Mapping[str, Digests], experiment: Any, directory: Path) -> None:
    """Refuse to continue a run whose files are not those it was started with; `before` is what `recorded` gave then."""
    known, held = before.get("sources", {}), before.get("files", {})
    changed = []
    if known:  # a relative path has another name in another directory; earlier versions recorded further files
        for place, digest in sources(experiment).items():
            if known[place] != digest if place in known else digest not in known.values():
                changed.append(place)
    changed += [name for name, digest in files(experiment).items() if held.get(name, digest) != digest]
    if changed:
        raise FedsweError(
            f"{changed[0]} has changed since the run in {directory} was started: restore it, or start a new run"
        )


def sources(experiment: Any) -> Digests:
    """The sha256 of the source file of each part that is not built in; not of what these files import."""
    return {place_of(cls): source_digest(cls) for cls in _foreign(experiment)}


def files(experiment: Any) -> Digests:
    """The sha256 of each file that a part reads: those that its fields `file` and `..._file` name."""
    found = {}
    for part in _parts(experiment):
        for f in fields(part):
            named = getattr(part, f.name) if f.init and (f.name == "file" or f.name.endswith("_file")) else None
            if named and isinstance(named, str):
                with suppress(OSError, ValueError):  # the part itself says best what is wrong with a file
                    status = os.stat(named)
                    if stat.S_ISREG(status.st_mode):
                        found[named] = _digest(os.path.abspath(named), status.st_size, status.st_mtime_ns)
    return found


@lru_cache(maxsize=256)
def _digest(path: str, *_status: int) -> str:
    """Kept while the file stays as it is: all runs of a comparison ask for it."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# parts ---------------------------------------------------------------------------------------------------
def _parts(value: Any) -> Iterator[Any]:
    """An experiment and all parts in it."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from _parts(item)
    elif is_dataclass(value):
        yield value
        for f in fields(value):
            held = getattr(value, f.name)
            if kind := f.metadata.get("kind"):  # a list of names
                held = [instance(kind, text, f.name) for text in held]
            yield from _parts(held)


def _foreign(experiment: Any) -> Iterator[Any]:
    """The classes and functions of a user that an experiment uses."""
    for part in _parts(experiment):
        if type(part).__module__.partition(".")[0] != "fedswe":
            yield type(part)
        for f in fields(part):
            if (what := f.metadata.get("function")) and ":" in (held := getattr(part, f.name)):
                yield function(what, held)
