"""Digests of the user's own source files and data files: a run does not continue with a file that has changed."""

from __future__ import annotations

import ast
import hashlib
import inspect
import os
import stat
import sys
import sysconfig
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
    # Of what is recorded, only files that the experiment uses count: earlier versions recorded others too.
    changed = [place for place, digest in _imports(experiment).items() if known.get(place, digest) != digest]
    if known:
        for place, digest in _parts_of_the_user(experiment).items():
            # A relative path has another name in another directory.
            if known[place] != digest if place in known else digest not in known.values():
                changed.append(place)
    changed += [name for name, digest in files(experiment).items() if held.get(name, digest) != digest]
    if changed:
        raise FedsweError(
            f"{changed[0]} has changed since the run in {directory} was started: restore it, or start a new run"
        )


# source files --------------------------------------------------------------------------------------------
def sources(experiment: Any) -> Digests:
    """The sha256 of the source file of each part that is not built in, and of the modules beside it that it imports."""
    imported = {name: digest for name, digest in _imports(experiment).items() if digest}
    return imported | _parts_of_the_user(experiment)


def _parts_of_the_user(experiment: Any) -> Digests:
    return {place_of(cls): source_digest(cls) for cls in _foreign(experiment)}


def _imports(experiment: Any) -> Digests:
    """The digests of the modules that the user's parts import; empty for those that are not in the part's folder."""
    found: Digests = {}
    for cls in _foreign(experiment):
        for name, digest in _imported_by(cls).items():
            found[name] = digest or found.get(name, "")
    return found


def _imported_by(cls: Any) -> Digests:
    """As the import statements say, also those in functions: what this process has imported may be of other scripts."""
    try:
        own = Path(inspect.getfile(cls)).resolve()
    except (OSError, TypeError):  # it was not read from a file
        return {}
    installed = [Path(path).resolve() for path in sysconfig.get_paths().values()]
    found: Digests = {}
    own_name = getattr(cls, "__module__", None) or ""
    left = [*_packages(own_name), *_imported_names(own, own_name)]
    while left:
        name = left.pop()
        if name in found:
            continue
        found[name] = ""
        file = _file_of(name, own.parent)
        if file in (None, own) or not file.is_relative_to(own.parent) or any(map(file.is_relative_to, installed)):
            continue
        with suppress(OSError):
            found[name] = hashlib.sha256(file.read_bytes()).hexdigest()
            left += _imported_names(file, name)
    return found


def _imported_names(file: Path, module: str) -> list[str]:
    """The names of all modules that a file may import, with their packages; some may be names inside a module."""
    try:
        statements = _import_statements(file.read_bytes())
    except OSError:
        return []
    package = module.split(".") if file.name == "__init__.py" else module.split(".")[:-1]
    found: list[str] = []
    for level, name in statements:
        above = package[: len(package) - level + 1] if level else []
        name = ".".join([*above, name])
        found += [*_packages(name), name]
    return found


def _packages(name: str) -> list[str]:
    """a and a.b, for a.b.c."""
    return [name[:at] for at, letter in enumerate(name) if letter == "."]


@lru_cache(maxsize=256)
def _import_statements(text: bytes) -> list[tuple[int, str]]:
    """What is imported, `from a import b` as a.b; with the number of dots that a relative import begins with."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):  # edited since it was imported
        return []
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(0, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = f"{node.module}." if node.module else ""
            found += [(node.level, base + alias.name) for alias in node.names]
    return found


def _file_of(name: str, folder: Path) -> Path | None:
    """The .py file of a module. One that is not imported yet is looked for in its package, or in a folder."""
    if name in sys.modules:
        found = [Path(getattr(sys.modules[name], "__file__", None) or "/")]
    else:
        package, _, last = name.rpartition(".")
        within = folder.joinpath(*package.split("."))
        places = getattr(sys.modules[package], "__path__", ()) if package in sys.modules else [within]
        found = [file for place in places for file in (Path(place, last, "__init__.py"), Path(place, f"{last}.py"))]
    return next((file.resolve() for file in found if file.suffix == ".py" and file.is_file()), None)


# data files ----------------------------------------------------------------------------------------------
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
                        found[named] = _digest(
                            os.path.abspath(named),
                            status.st_size,
                            status.st_ino,
                            status.st_mtime_ns,
                            status.st_ctime_ns,
                        )
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
