"""Digests of the user's own source files: a run does not continue with a file that has changed."""

from __future__ import annotations

import hashlib
import inspect
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from fedswe.errors import require
from fedswe.registry import FILE_MODULE, function, instance, place_of, source_digest


def sources(experiment: Any) -> dict[str, str]:
    """The sha256 of the source file of each part of an experiment that is not built in, by file or module."""
    found: dict[str, str] = {}
    for cls in _foreign(experiment):
        found |= {place_of(cls): source_digest(cls), **_beside(cls)}
    return found


def _beside(cls: type[Any]) -> dict[str, str]:
    """The digests of the modules that were imported from the folder of a class's file, by module name."""
    try:
        own = Path(inspect.getfile(cls)).resolve()
    except (OSError, TypeError):  # it was not read from a file
        return {}
    installed = [Path(path).resolve() for path in sysconfig.get_paths().values()]
    found = {}
    for name, module in list(sys.modules.items()):
        file = Path(getattr(module, "__file__", None) or "/").resolve()
        beside = file.suffix == ".py" and file != own and file.is_relative_to(own.parent)
        if beside and not name.startswith((FILE_MODULE, "fedswe.")) and not any(map(file.is_relative_to, installed)):
            with suppress(OSError):
                found[name] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found


def refuse_changed(before: Mapping[str, str], experiment: Any, directory: Path) -> None:
    """Refuse to continue a run whose own source files are not those it was started with."""
    now = sources(experiment)
    for place, digest in before.items():
        require(
            now.get(place) == digest,
            f"{place} has changed since the run in {directory} was started: restore it, or start a new run",
        )


def _foreign(value: Any) -> Iterator[Any]:
    """The classes and functions of a user that an experiment uses."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from _foreign(item)
    elif is_dataclass(value):
        if type(value).__module__.partition(".")[0] != "fedswe":
            yield type(value)
        for f in fields(value):
            held = getattr(value, f.name)
            if (what := f.metadata.get("function")) and ":" in held:
                yield function(what, held)
            if kind := f.metadata.get("kind"):  # a list of names
                held = [instance(kind, text, f.name) for text in held]
            yield from _foreign(held)
