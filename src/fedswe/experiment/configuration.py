"""TOML to experiments and back; a mistake gets one line that says what to change."""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from fedswe.core.local import Local
from fedswe.errors import FedsweError, require, suggestion
from fedswe.experiment.experiment import Evaluate, Experiment, Record
from fedswe.plugins import function, place_of, source_digest
from fedswe.registry import (
    build,
    dotted,
    importable,
    instance,
    kind_of,
    name_of,
    names,
    resolve,
    toml_value,
)  # fmt: skip

Table = dict[str, Any]
Digests = dict[str, str]  # sha256 by file or module

# Sections with a name, by kind.
DEFAULT = {"algorithm": "fedswe", "availability": "sine", "clock": "rounds", "task": "digits"}
_VARIANT = {"echo_cap": 0.0, "progress_over": "all"}  # were parameters of fedswe, now of fedswe_variant
PLAIN: Mapping[str, type[Any]] = {"local": Local, "evaluate": Evaluate, "record": Record}


# reading -------------------------------------------------------------------------------------------------
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
            meant = next((f"; write {kind}.name={path}" for kind in DEFAULT if str(path) in names(kind)), "")
            raise FedsweError(f"cannot read {path}: {getattr(error, 'strerror', '') or 'not UTF-8'}{meant}") from None
        table = _parse(text, str(path))
    return override(table, overrides)


def override(table: Table, overrides: Iterable[str]) -> Table:
    """Apply ``section.key=value`` overrides. Naming another algorithm, for example, drops the parameters of the former.

    Names are applied first, so that the order of the overrides does not matter.
    """
    table = {key: dict(value) if isinstance(value, dict) else value for key, value in table.items()}
    parsed = []
    for word in overrides:
        key, equals, text = word.partition("=")
        if not equals or not key:
            raise FedsweError(f"cannot read {word!r}: overrides are section.key=value, e.g. algorithm.k=0")
        parsed.append((*key.partition("."), toml_value(text)))
    for section, dot, name, value in sorted(parsed, key=lambda item: item[2] != "name"):
        if not dot:
            table[section] = value
        elif not isinstance(table.setdefault(section, {}), dict):
            raise FedsweError(f"{section} is a value, not a section: write {section}=...")
        else:
            if name == "name" and table[section].get("name", DEFAULT.get(section)) != value:
                table[section] = {}
            table[section][name] = value
    return table


def _parse(text: str, name: str) -> Table:
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))  # a byte order mark, which some editors write
    except (ValueError, RecursionError) as error:  # also numbers of thousands of digits, and lists in lists in lists
        raise FedsweError(f"{name} is not valid TOML: {error}") from None


# validating ----------------------------------------------------------------------------------------------
def experiment(table: Table) -> Experiment:
    """Validate a table."""
    table, known = _current(table), [f.name for f in fields(Experiment)]
    for key in table:
        require(key in known, f"unknown key {key}: {_meant(key, table)}")
    for section in table:
        if section in DEFAULT:
            table[section] = instance(section, {"name": DEFAULT[section], **_section(table, section)}, section)
        elif section in PLAIN:
            table[section] = build(PLAIN[section], _section(table, section), section)
    return build(Experiment, table, "")


def _current(table: Table) -> Table:
    """The table with the keys of earlier versions as they are written now: stored results have the earlier ones."""
    table, record, algorithm, evaluate = dict(table), *map(table.get, ("record", "algorithm", "evaluate"))
    if isinstance(evaluate, dict) and {"model", "ema_decay", "tail_every"} <= evaluate.keys():  # every key of then
        then = {"ema_correct_bias": False} if "ema" in str(evaluate["model"]) else {}
        table["evaluate"] = {**then, **evaluate}
    if isinstance(record, dict) and "probes" in record:
        table["record"] = {"columns" if key == "probes" else key: value for key, value in record.items()}
    if isinstance(algorithm, dict) and (name := algorithm.get("name", DEFAULT["algorithm"])) in ("fedswe", "fedawe"):
        moved = {key: algorithm[key] for key in _VARIANT if key in algorithm}
        table["algorithm"] = {key: value for key, value in algorithm.items() if key not in moved}
        if any(moved[key] != _VARIANT[key] for key in moved):
            k = {"k": 0.0} if name == "fedawe" else {}
            table["algorithm"] |= {"name": "fedswe_variant", **k, **_VARIANT, **moved}
    return table


def _meant(key: str, table: Table) -> str:
    """What to write instead of an unknown key at the top level: often the section was left out."""
    outside = {f.name: f.name for f in fields(Experiment)}
    inside = {} if isinstance(table[key], dict) else keys_in_sections(table)
    known = {inner: " or ".join(places) for inner, places in inside.items()} | outside
    return suggestion(key, known, f"known are {', '.join(outside)}")


def keys_in_sections(table: Table) -> dict[str, list[str]]:
    """Every key of the sections, with the places where it stands: lr in local.lr and algorithm.lr."""
    inside: dict[str, list[str]] = {}
    for section in (*PLAIN, *DEFAULT):
        given = table.get(section)
        name = given.get("name") if isinstance(given, dict) else None
        cls = PLAIN[section] if section in PLAIN else resolve(section, name or DEFAULT[section])
        for inner in (*(["name"] if section in DEFAULT else []), *(f.name for f in fields(cls) if f.init)):
            inside.setdefault(inner, []).append(f"{section}.{inner}")
    return inside


def _section(table: Table, section: str) -> Table:
    value, key = table[section], "name" if section in DEFAULT else "KEY"
    require(isinstance(value, dict), f"{section} must be a section: write {section}.{key}=... or [{section}]")
    return value  # type: ignore[no-any-return]


# writing -------------------------------------------------------------------------------------------------
def dump(experiment: Experiment, kept: bool = False) -> str:
    """The resolved configuration as TOML, every key written out; only `track`, if it is empty, is not.

    One that is kept names nothing that only this process and its workers can find.
    """
    for part in map(type, _parts(experiment) if kept else ()):
        lost = f"the {kind_of(part)} {part.__name__} cannot be imported again, as a run that is kept must be"
        hint = "move it from the script or function into a file of its own, and import it from there, or give no out="
        require(importable(part), f"{lost}: {hint}")
    table = _plain(experiment, "")
    if not experiment.track:
        del table["track"]
    return tomli_w.dumps(table)


def settings(experiment: Experiment) -> Table:
    """Every key of the configuration that belongs to a run, e.g. local.lr, with its value."""
    table = _plain(experiment, "")
    del table["track"]
    sections = {name: value if isinstance(value, dict) else {"": value} for name, value in table.items()}
    return {dotted(name, key): value for name, section in sections.items() for key, value in section.items()}


def _plain(value: Any, where: str) -> Any:
    """A value as TOML has it: a part is a table; from Python, numbers may come as numpy's."""
    if is_dataclass(value) and not isinstance(value, type):
        kind = kind_of(type(value))
        held = {f.name: getattr(value, f.name) for f in fields(value) if f.init}
        parameters = {key: _plain(v, dotted(where, key)) for key, v in held.items() if v is not None}
        return {"name": name_of(kind, type(value)), **parameters} if kind else parameters
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item, where) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item, where) for key, item in value.items()}
    require(isinstance(value, bool | int | float | str), f"{where}: TOML cannot hold {value!r}")
    return value


# the same experiment ----------------------------------------------------------------------------------------
def refuse_other(there: Experiment, here: Experiment, directory: Path) -> None:
    """Refuse to continue the run of `there` with the experiment `here`. Threads, which are only rounding, and
    trackers may differ."""
    other = first_difference(replace(there, threads=0), replace(here, threads=0))
    require(not other, f"the run in {directory} was started with another configuration ({other}): start a new run")


def first_difference(there: Experiment, here: Experiment) -> str:
    """The first key in which two experiments differ, with its values; empty if none but `track` does."""
    old, new = settings(there), settings(here)
    differing = [key for key in [*old, *new] if old.get(key) != new.get(key)]
    return f"{differing[0]} = {old.get(differing[0])} there, {new.get(differing[0])} here" if differing else ""


def recorded(experiment: Experiment) -> dict[str, Digests]:
    """What run.json says about the files that an experiment depends on: `sources` and `files`, if there are any."""
    found = {"sources": sources(experiment), "files": files(experiment)}
    return {key: digests for key, digests in found.items() if digests}


def refuse_changed(before: Mapping[str, Digests], experiment: Experiment, directory: Path) -> None:
    """Refuse to continue a run whose files are not those it was started with; `before` is what `recorded` gave then."""
    for key, now in recorded(experiment).items():
        known = before.get(key)  # of earlier versions, nothing is known
        for name, digest in now.items():
            # A relative path has another name in another directory.
            same = not known or (known[name] == digest if name in known else digest in known.values())
            begun = f"the run in {directory} was started"
            require(same, f"{name} has changed since {begun}: restore it, or start a new run")


def sources(experiment: Experiment) -> Digests:
    """The sha256 of the source file of each part that is not built in; not of what these files import."""
    found: Digests = {}
    for part in _parts(experiment):
        built_in = type(part).__module__.startswith("fedswe.")
        used: list[Any] = [type(part)] if importable(type(part)) and not built_in else []
        for f in fields(part):
            if (what := f.metadata.get("function")) and ":" in (held := getattr(part, f.name)):
                used.append(function(what, held))
        found |= {place_of(one): source_digest(one) for one in used}
    return found


def files(experiment: Experiment) -> Digests:
    """The sha256 of each file that a part reads: those that its fields `file` and `..._file` name."""
    names = [getattr(p, f.name) for p in _parts(experiment) for f in fields(p) if re.fullmatch("(.*_)?file", f.name)]
    there = [name for name in names if isinstance(name, str) and os.path.isfile(name)]
    return {name: _digest(os.path.abspath(name), os.stat(name).st_mtime_ns) for name in there}


@lru_cache(maxsize=256)
def _digest(path: str, _modified: int) -> str:
    """Kept while the file stays as it is: all runs of a comparison ask for it."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
