"""TOML to experiments and back; a mistake gets one line that says what to change."""

from __future__ import annotations

import difflib
import importlib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, is_dataclass
from inspect import isabstract
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import tomli_w
from pydantic import TypeAdapter, ValidationError

from fedswe.algorithms import ALGORITHMS
from fedswe.availability import AVAILABILITY
from fedswe.core.local import Local
from fedswe.errors import FedsweError
from fedswe.experiment.experiment import Evaluate, Experiment, Record
from fedswe.tasks import TASKS, Task

T = TypeVar("T")
Table = dict[str, Any]

NAMED: Mapping[str, Mapping[str, type[Any]]] = {
    "algorithm": ALGORITHMS,
    "availability": AVAILABILITY,
    "task": TASKS,
}
DEFAULT = {"algorithm": "fedswe", "availability": "sine", "task": "digits"}
PLAIN: Mapping[str, type[Any]] = {"local": Local, "evaluate": Evaluate, "record": Record}


def load(path: str | Path | None, overrides: Iterable[str] = ()) -> Experiment:
    """An experiment from a TOML file (or the defaults) with ``section.key=value`` overrides."""
    return experiment(read(path, overrides))


def load_text(text: str, name: str) -> Experiment:
    """An experiment from the text of a TOML file called `name`."""
    return experiment(_parse(text, name))


def read(path: str | Path | None, overrides: Iterable[str] = ()) -> Table:
    """The table of a file with overrides applied, not yet validated."""
    table: Table = {}
    if path is not None:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise FedsweError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'not UTF-8 text'}") from None
        table = _parse(text, str(path))
    return override(table, overrides)


def override(table: Table, overrides: Iterable[str]) -> Table:
    """Apply ``a.b=value`` words in order. Renaming a section drops the parameters of its former name."""
    table = {key: dict(value) if isinstance(value, dict) else value for key, value in table.items()}
    for word in overrides:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise FedsweError(f"cannot read {word!r}: overrides are section.key=value, e.g. algorithm.k=0")
        section, dot, name = key.partition(".")
        if not dot:
            table[section] = _value(text)
        elif not isinstance(table.setdefault(section, {}), dict):
            raise FedsweError(f"{section} is a value, not a section: write {section}=...")
        else:
            if name == "name" and table[section].get("name", DEFAULT.get(section)) != _value(text):
                table[section] = {}
            table[section][name] = _value(text)
    return table


def experiment(table: Table) -> Experiment:
    """Validate a table."""
    plain = {f.name for f in fields(Experiment)} - NAMED.keys() - PLAIN.keys()
    _refuse_unknown(table, plain | NAMED.keys() | PLAIN.keys(), "")
    values: Table = {key: table[key] for key in plain if key in table}
    for section, registry in NAMED.items():
        if section in table:
            values[section] = named(registry, _section(table, section), section)
    for section, cls in PLAIN.items():
        if section in table:
            values[section] = build(cls, _section(table, section), section)
    return build(Experiment, values, "")


def named(registry: Mapping[str, type[T]], table: Table, section: str) -> T:
    """One entry of a registry with its parameters; a section without a name is the default one."""
    table = {"name": DEFAULT.get(section), **table}
    name = table.pop("name")
    if section == "task" and ":" in str(name):
        return cast(T, build(_imported(str(name)), table, section, of=f" of {name}"))
    if not isinstance(name, str) or name not in registry:
        raise FedsweError(f"unknown {section} {name!r}{_nearest(str(name), registry)}")
    return build(registry[name], table, section, of=f" of {name}")


def _imported(path: str) -> type[Task]:
    """A user's own task, `module:class`."""
    module, _, name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise FedsweError(
            f"task.name: cannot import {path} ({error}): is its directory on PYTHONPATH, and the name right?"
        ) from None
    if not (isinstance(found, type) and issubclass(found, Task) and is_dataclass(found)) or isabstract(found):
        raise FedsweError(f"task.name: {path} is not a dataclass derived from fedswe.tasks.Task with a method build")
    return found


def dump(experiment: Experiment) -> str:
    """The resolved configuration as TOML, every key written out."""
    return tomli_w.dumps(_resolved(experiment))


def _resolved(experiment: Experiment) -> Table:
    table: Table = {}
    for f in fields(Experiment):
        value = getattr(experiment, f.name)
        if f.name in NAMED:
            names = {cls: name for name, cls in NAMED[f.name].items()}
            if f.name == "task" and type(value) not in names and "." not in type(value).__qualname__:
                names[type(value)] = f"{type(value).__module__}:{type(value).__name__}"
            if type(value) not in names:
                raise FedsweError(
                    f"{type(value).__name__} is not a registered {f.name}: run it without an output directory"
                )
            table[f.name] = {"name": names[type(value)], **_parameters(value)}
        else:
            table[f.name] = _parameters(value) if f.name in PLAIN else _plain(value)
    return table


def refuse_other(there: Experiment, here: Experiment, directory: Path) -> None:
    """Refuse to go on with the run of `there` as if it were `here`."""
    old, new = _keys(_resolved(there)), _keys(_resolved(here))
    for key in [*old, *new]:
        if old.get(key) != new.get(key):
            differing = f"{key} = {old.get(key)} there, {new.get(key)} here"
            raise FedsweError(
                f"the run in {directory} was started with another configuration ({differing}): start a new run"
            )


def _keys(table: Table) -> Table:
    """section.key of every value."""
    sections = {name: value if isinstance(value, dict) else {"": value} for name, value in table.items()}
    return {_where(name, key): value for name, section in sections.items() for key, value in section.items()}


def _parameters(value: Any) -> Table:
    kept = {f.name for f in fields(value) if f.init}
    return {name: _plain(v) for name, v in asdict(value).items() if name in kept and v is not None}


def _plain(value: Any) -> Any:
    """From Python, numbers may come as numpy's: TOML knows only its own."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value


def build(cls: type[T], table: Table, section: str, of: str = "") -> T:
    """One dataclass from its table."""
    types = {f.name: str(f.type) for f in fields(cls) if f.init}  # type: ignore[arg-type]
    _refuse_unknown(table, types, section, of)
    for key, value in table.items():
        if isinstance(value, bool) and ("int" in types[key] or "float" in types[key]):
            # Pydantic would read true as 1, and clip=true is not meant as clip=1.
            raise FedsweError(f"{_where(section, key)}: must be a number, not {str(value).lower()}")
    try:
        return _adapter(cls).validate_python(table)
    except ValidationError as error:
        raise FedsweError(_first_line(error, section)) from None


_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {}


def _adapter(cls: type[T]) -> TypeAdapter[T]:
    if cls not in _ADAPTERS:
        _ADAPTERS[cls] = TypeAdapter(cls)
    return _ADAPTERS[cls]


def _first_line(error: ValidationError, section: str) -> str:
    first = error.errors()[0]
    message = first["msg"].removeprefix("Value error, ")
    # A union reports every alternative it tried; the first part of the location is the key itself.
    where = _where(section, *(str(part) for part in first["loc"][:1]))
    if first["type"] == "value_error":
        return f"{where}: {message}" if where else message
    return f"{where}: {message[0].lower()}{message[1:]}, not {first['input']!r}"


def _refuse_unknown(table: Table, known: Iterable[str], section: str, of: str = "") -> None:
    known = sorted(known)
    for key in table:
        if key not in known:
            raise FedsweError(f"unknown key {_where(section, key)}{of}{_nearest(key, known)}")


def _where(*parts: str) -> str:
    return ".".join(part for part in parts if part)


def _nearest(word: str, known: Iterable[str]) -> str:
    known = list(known)
    close = difflib.get_close_matches(word, known, n=1)
    return f": did you mean {close[0]}?" if close else f": known are {', '.join(known) or 'none'}"


def _section(table: Table, section: str) -> Table:
    if not isinstance(table[section], dict):
        key = "name" if section in NAMED else "KEY"
        raise FedsweError(f"{section} must be a section: write {section}.{key}=... or [{section}]")
    value: Table = table[section]
    return value


def _value(text: str) -> Any:
    """A TOML value; a bare word is a string."""
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text


def _parse(text: str, name: str) -> Table:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FedsweError(f"{name} is not valid TOML: {error}") from None
