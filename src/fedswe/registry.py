"""Names to classes and back: algorithms, availability models, tasks and other parts.

A name is looked up in the built-in table, then among the entry points of installed packages; ``package.module:Class``
and ``./file.py:Class`` (relative to the current directory) name any other class. Nothing is imported to list names.
"""

from __future__ import annotations

import importlib
import inspect
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from fedswe.errors import FedsweError, first_line, require, suggestion
from fedswe.kinds import KINDS, kind_with_base
from fedswe.plugins import NAME_USED, file_of, load, source_digest


# from names to classes -----------------------------------------------------------------------------------
def names(kind: str) -> list[str]:
    """The built-in names and those of installed packages; nothing is imported."""
    return list(dict.fromkeys([*KINDS[kind].builtin, *(point.name for point in _published(kind))]))


def titles(kind: str) -> dict[str, str]:
    """One line about each name; for a class of an installed package that cannot be used, the reason."""
    found = {}
    for name in names(kind):
        try:
            found[name] = title_of(resolve(kind, name))
        except FedsweError as error:
            found[name] = f"cannot be used: {error}"
    return found


def resolve(kind: str, name: object) -> type[Any]:
    """The class with this name. Whatever is wrong with it is said in one line."""
    builtin = KINDS[kind].builtin
    if not isinstance(name, str):
        raise FedsweError(f"unknown {kind} {name!r}: give a name in quotes")
    if name in builtin:
        return _attribute(builtin[name])  # type: ignore[no-any-return]
    published = {point.value for point in _published(kind) if point.name == name}
    require(len(published) < 2, f"{kind} {name} is published by several packages: write {' or '.join(published)}")
    target = published.pop() if published else name
    place, colon, _ = target.rpartition(":")
    if not colon:
        hint = f"name the class, {name}:Class" if name.endswith(".py") else suggestion(name, names(kind))
        raise FedsweError(f"unknown {kind} {name!r}: {hint}")
    require(place and target.rpartition(":")[2], f"unknown {kind} {name!r}: write module:Class or ./file.py:Class")
    file = file_of(place)
    cls = _checked(kind, name, target, file)
    NAME_USED[cls] = (name, file)
    return cls


def find(name: str) -> list[tuple[str, type[Any]]]:
    """The classes with this name, of any kind, with their kinds."""
    if ":" in name:
        cls = load("class", name, name, file_of(name.rpartition(":")[0]))
        if inspect.isfunction(cls):  # of a task: no other part can be a function
            return [("task", resolve("task", name))]
        kinds = [kind for owner in getattr(cls, "__mro__", ()) if (kind := kind_with_base(owner))]
        require(kinds, f"{name} derives from none of the base classes: {', '.join(k.base for k in KINDS.values())}")
        return [(kinds[0], resolve(kinds[0], name))]
    found = [(kind, resolve(kind, name)) for kind in KINDS if name in names(kind)]
    if not found:
        known = [known for kind in KINDS for known in names(kind)]
        raise FedsweError(f"unknown name {name!r}: {suggestion(name, known, 'see fedswe list')}")
    return found


_entry_points = cache(entry_points)  # reads a file of every installed package


def _published(kind: str) -> EntryPoints:
    return _entry_points().select(group=KINDS[kind].group)


def _attribute(target: str) -> Any:
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


# checks of classes that are not built in -----------------------------------------------------------------
@cache
def _checked(kind: str, name: str, target: str, file: Path | None) -> type[Any]:
    """A class that is not built in, imported and checked."""
    base, cls = _attribute(KINDS[kind].base), load(kind, name, target, file)
    if inspect.isfunction(cls) and hasattr(base, "from_function"):
        cls = base.from_function(cls)
    here = f"{kind} {name}: {target.rpartition(':')[2]}"
    derived = isinstance(cls, type) and issubclass(cls, base)
    require(derived, f"{here} is not a class derived from {base.__module__}.{base.__name__}")
    missing = sorted(getattr(cls, "__abstractmethods__", ()))
    require(not missing, f"{here} is abstract: define {', '.join(missing)}")
    _check_parameters(cls, here)
    source_digest(cls)
    return cls  # type: ignore[no-any-return]


def _check_parameters(cls: type[Any], here: str) -> None:
    """Refuse a class that cannot be built from a configuration file."""
    decorate = "write @dataclass(frozen=True) above it"
    frozen = is_dataclass(cls) and cls.__dataclass_params__.frozen  # type: ignore[attr-defined]
    require(frozen, f"{here} is not a frozen dataclass: {decorate}")
    try:
        hints = get_type_hints(cls)
    except Exception as error:
        raise FedsweError(f"{here}: the type of a parameter cannot be read ({first_line(error)})") from None
    parameters = {f.name for f in fields(cls)}
    for key in inspect.get_annotations(cls):
        constant = ClassVar in (hints[key], get_origin(hints[key]))
        require(key in parameters or constant, f"{here} declares {key} but is not a dataclass itself: {decorate}")
    for f in fields(cls):
        plain = not f.init or _plain(hints[f.name])
        require(plain, f"{here}: TOML cannot hold {f.name}: use numbers, texts, booleans or lists of them")


def _plain(hint: Any) -> bool:
    """Whether TOML can hold the values of a type."""
    if get_origin(hint) in (list, tuple, dict, Union, UnionType):
        return all(_plain(argument) for argument in get_args(hint) if argument is not Ellipsis)
    plain = hint in (bool, int, float, str, NoneType, Any) or get_origin(hint) is Literal
    return plain or kind_with_base(hint) is not None


# from classes to titles and names ------------------------------------------------------------------------
def title_of(cls: type[Any]) -> str:
    """One line about a class: its title, or else the first line of its docstring."""
    return vars(cls).get("title", "") or (inspect.getdoc(cls) or cls.__name__).partition("\n")[0]


def name_of(kind: str, cls: type[Any]) -> str:
    """The name that finds a class again: as it was asked for, or else ``module:Class``."""
    target = f"{cls.__module__}:{cls.__qualname__}"
    for name, value in KINDS[kind].builtin.items():
        if value == target:
            return name
    if cls in NAME_USED:
        name, file = NAME_USED[cls]
        # A relative path may lead elsewhere by now.
        return name if file in (None, Path(name.rpartition(":")[0]).resolve()) else f"{file}:{cls.__qualname__}"
    require(
        cls.__module__ != "__main__" and "." not in cls.__qualname__,
        f"the {kind} {cls.__name__} cannot be imported again: move it from the script or function into a file of its "
        "own, and import it from there",
    )
    return target
