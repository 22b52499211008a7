"""fedswe list, fedswe show."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import Annotated, Any

import typer

from fedswe.cli.arguments import Json, suggestion
from fedswe.cli.console import console, print_json, print_table
from fedswe.errors import FedsweError

_COUNTED = ("kept at the server", "kept at each client", "down before the work", "up", "reply after the merge")
# What fedswe.core.footprint counts for the built-in algorithms with their default parameters: counting needs torch.
_NUMBERS = {
    "fedswe": ("d", "d + 1", "0", "d", "d"),
    "fedawe": ("d", "d + 1", "0", "d", "d"),
    "fedavg": ("d", "0", "d", "d", "0"),
    "fedavg_all": ("d", "0", "d", "d", "0"),
    "fedavg_known": ("d", "0", "d", "d", "0"),
    "gfedavg": ("2d", "0", "d", "d", "0"),
    "fedau": ("d", "2", "d", "d", "0"),
    "f3ast": ("d", "2", "d", "d", "0"),
    "mifa": ("2d + 1", "d + 1", "d", "d + 1", "0"),
    "fedvarp": ("2d", "d", "d", "d", "0"),
    "scaffold": ("2d", "d", "2d", "2d", "0"),
    "amplified_scaffold": ("4d", "2d + 2", "2d", "2d", "0"),
    "fedpbc": ("d", "d", "0", "d", "d"),
}


def _sections() -> Mapping[str, Mapping[str, type[Any]]]:
    """The named classes of each section of a configuration."""
    from fedswe.experiment.configuration import NAMED

    return NAMED


def _complete(incomplete: str) -> list[tuple[str, str]]:
    return [
        (name, cls.title)
        for named in _sections().values()
        for name, cls in named.items()
        if name.startswith(incomplete)
    ]


def list_command(as_json: Json = False) -> None:
    """List algorithms, availability models and tasks."""
    titles = {section: {name: cls.title for name, cls in named.items()} for section, named in _sections().items()}
    if as_json:
        print_json(titles)
        return
    for section, named in titles.items():
        print_table(section, ("name", "title"), named.items())
    console.print("fedswe show NAME explains one of them")


def show_command(
    name: Annotated[str, typer.Argument(help="A name from `fedswe list`", autocompletion=_complete)],
    as_json: Json = False,
) -> None:
    """Explain an algorithm, availability model or task: formula, parameters, memory, messages, citation."""
    sections = _sections()
    found = [_description(section, name, named[name]) for section, named in sections.items() if name in named]
    if not found:
        known = [known for named in sections.values() for known in named]
        raise FedsweError(f"unknown name {name!r}: {suggestion(name, known, 'see fedswe list')}")
    if as_json:
        print_json(found[0])
        return
    for entry in found:
        _print(entry)


def _description(section: str, name: str, cls: type[Any]) -> dict[str, Any]:
    comments = _comments(cls)
    parameters = [
        {"key": f.name, "default": _default(f), "meaning": comments.get(f.name, "")} for f in fields(cls) if f.init
    ]
    entry = {"section": section, "name": name, "title": cls.title, "description": inspect.getdoc(cls) or ""}
    entry["parameters"] = parameters
    if section == "algorithm":
        entry["numbers"] = dict(zip(_COUNTED, _NUMBERS.get(name) or _counted(cls), strict=True))
        entry["trains_while_absent"] = cls.trains_while_absent
        entry["needs_probabilities"] = cls.needs_probabilities
        entry["citation"] = cls.citation
    return entry


def _print(entry: dict[str, Any]) -> None:
    console.print(f"[bold]{entry['name']}[/bold]", end="", markup=True)
    console.print(f"  {entry['title']}\n\n{entry['description']}\n")
    if entry["parameters"]:
        rows = [(p["key"], repr(p["default"]), p["meaning"]) for p in entry["parameters"]]
        print_table(f"[{entry['section']}]", ("key", "default", "meaning"), rows)
    if entry["section"] == "algorithm":
        title = "numbers kept, and moved per client and round (4 bytes each in float32; d = parameters)"
        print_table(title, _COUNTED, [tuple(entry["numbers"].values())])
        if entry["trains_while_absent"]:
            console.print("absent clients train too")
        if entry["needs_probabilities"]:
            console.print("needs the true probabilities p_i^t, which no deployed client knows")
        console.print(f"\nReference: {entry['citation']}")


def _default(field: Field[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not MISSING else None


def _comments(cls: type[Any]) -> dict[str, str]:
    """The comment beside each field, which is where its meaning is written."""
    found: dict[str, str] = {}
    for owner in reversed(cls.__mro__):
        if owner.__module__ not in ("abc", "builtins", "typing"):
            found |= dict(re.findall(r"^    (\w+): [^\n]*?  # (.+)$", inspect.getsource(owner), re.MULTILINE))
    return found


def _counted(cls: type[Any]) -> tuple[str, ...]:
    from fedswe.core.footprint import footprint, in_d

    d = 1000  # any size larger than the number of scalars an algorithm keeps
    count = footprint(cls(), d)
    return tuple(in_d(n, d) for n in (count.server, count.client, count.down, count.up, count.reply))
