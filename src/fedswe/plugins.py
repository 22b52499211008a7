"""Plug-ins: classes and functions of users, imported from the module or file that a name begins with; their failures.

``package.module:Class`` and ``./file.py:Class`` (relative to the current directory) name any class or function.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, cast

from fedswe.errors import FedsweError, first_line, located, mistakes_as, require, suggestion

_FILE_MODULE = "_fedswe_file_"  # begins the module name of a file that was given by its path
NAME_USED: dict[type[Any], tuple[str, Path | None]] = {}  # the name by which a class was found last, and its file
TRACEBACK = "FEDSWE_TRACEBACK"  # environment variable: show the whole traceback of a failure too
_ALLOCATION = ("can't allocate memory", "out of memory", "not enough memory")  # torch, on a CPU and on a GPU
_DIGESTS: dict[type[Any], str] = {}  # of source files as they were when this process first used them: what runs


def file_of(place: str) -> Path | None:
    """The file that a name such as ``./file.py:Class`` begins with; None for a module."""
    return Path(place).resolve() if place.endswith(".py") or "/" in place else None


def load(kind: str, name: str, target: str, file: Path | None) -> Any:
    """What ``module:Class`` or ``file.py:Class`` stands for, not yet checked."""
    place, _, attribute = target.rpartition(":")
    with mistakes_as(f"{kind} {name}: cannot import {place}"):
        module = _import_module(place) if file is None else _import_file(file, place)
    if not hasattr(module, attribute):
        own = (type, FunctionType) if kind in ("task", "model", "class") else type
        classes = [key for key, value in vars(module).items() if isinstance(value, own)]
        raise FedsweError(f"{kind} {name}: {place} has no class {attribute}: {suggestion(attribute, classes)}")
    return getattr(module, attribute)


def function(what: str, name: str) -> Callable[..., Any]:
    """The function of a user that ``module:function`` or ``file.py:function`` names."""
    file = file_of(name.rpartition(":")[0])
    found = load(what, name, name, file)
    require(callable(found), f"{what} {name}: {name.rpartition(':')[2]} is not a function")
    NAME_USED[found] = (name, file)
    return cast(Callable[..., Any], found)


def called(what: str, name: str, *arguments: object) -> Any:
    """What a user's function returns; it takes the arguments, or none."""
    found = function(what, name)
    try:
        takes = len(inspect.signature(found).parameters)
    except (TypeError, ValueError):
        takes = 0
    wanted = len(arguments)
    require(takes in (0, wanted), f"{what} {name}: it must take {wanted} arguments or none, not {takes}")
    with mistakes_as(f"{what} {name} cannot be made"):
        return found(*arguments[:takes])


def _import_module(name: str) -> ModuleType:
    # The command `fedswe` does not have the current directory on its path, `python -m fedswe` has.
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.append(os.getcwd())
    importlib.invalidate_caches()  # the file may be younger than the last look into its directory
    return importlib.import_module(name)


def _import_file(path: Path, place: str) -> ModuleType:
    if not path.is_file():
        raise FedsweError(f"{place}: there is no file {path}; a relative path begins where the command is given")
    name = f"{_FILE_MODULE}{hashlib.sha256(str(path).encode()).hexdigest()[:8]}_{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # it may import the files beside it
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses look up the module of a class by its name
    try:
        # Compiled from the text itself: stored bytecode may be that of a version of the same second and length.
        exec(compile(path.read_bytes(), path, "exec"), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def place_of(cls: type[Any]) -> str:
    """The file or module that a class was found in, as the user named it."""
    name, file = NAME_USED.get(cls, ("", None))
    return name.rpartition(":")[0] if file else cls.__module__


def source_digest(cls: type[Any]) -> str:
    """The sha256 of the file that defines a class."""
    if cls not in _DIGESTS:
        try:
            _DIGESTS[cls] = hashlib.sha256(Path(inspect.getfile(cls)).read_bytes()).hexdigest()
        except (OSError, TypeError):
            _DIGESTS[cls] = "unknown"  # it was not read from a file
    return _DIGESTS[cls]


def explained(error: BaseException) -> FedsweError | None:
    """A failure that is the user's to mend, as one line: in their own classes, too little memory; None for others."""
    if isinstance(error, FedsweError):
        return error
    if isinstance(error, MemoryError) or any(text in str(error) for text in _ALLOCATION):
        return FedsweError(
            f"not enough memory ({first_line(error)}): lower task.clients, local.batch_size or local.steps, "
            "choose a smaller model, or give fewer jobs="
        )
    more = "" if os.environ.get(TRACEBACK) else f"; {TRACEBACK}=1 shows the whole traceback"
    if place := located(error):
        return FedsweError(f"{place}{more}")
    names = [name for name, _ in NAME_USED.values()]  # what was found by name in this process
    if names and not isinstance(error, SystemExit):
        return FedsweError(f"{first_line(error)}: check what the methods of {' and '.join(names)} return{more}")
    return None
