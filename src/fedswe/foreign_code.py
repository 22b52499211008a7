"""Which code the configuration of somebody else may name."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path

from fedswe.errors import FedsweError


class ForeignCode(FedsweError):
    """A part of somebody else's configuration that is not imported."""


@dataclass(frozen=True)
class _Allowed:
    folder: Path | None
    names: frozenset[str]


_ALLOWED: ContextVar[_Allowed | None] = ContextVar("allowed", default=None)


@contextmanager
def only_code_of(folder: Path | None, names: Iterable[str] = ()) -> Iterator[None]:
    """Refuse parts that are neither built in nor published by an installed package, nor in `folder`, nor in `names`.

    For the configuration of somebody else, which may name any file as code to run.
    """
    path = [] if folder is None else [str(folder.resolve())]
    before = _ALLOWED.set(_Allowed(folder and folder.resolve(), frozenset(names)))
    sys.path[:0] = path
    try:
        yield
    finally:
        _ALLOWED.reset(before)
        for entry in path:
            sys.path.remove(entry)


def restricted() -> bool:
    """Whether a configuration of somebody else is read."""
    return _ALLOWED.get() is not None


def require_allowed(kind: str, name: str, file: Path | None) -> None:
    allowed = _ALLOWED.get()
    if allowed is None or name in allowed.names:
        return
    if (folder := allowed.folder) is not None:
        package = name.partition(":")[0].partition(".")[0]
        if PathFinder.find_spec(package, [str(folder)]) if file is None else file.is_relative_to(folder):
            return
    known = "not built in" if folder is None else f"not in {folder}"
    raise ForeignCode(f"the {kind} {name} is {known}: name the folder in which you have its code with --app")
