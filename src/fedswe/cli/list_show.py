"""The commands `fedswe list` and `fedswe show`: print the known names, and the parameters of one."""

from __future__ import annotations

import inspect
import re
from contextlib import suppress
from dataclasses import MISSING, Field, fields
from typing import Annotated, Any

import click
import typer

from fedswe import registry
from fedswe.cli.arguments import Json
from fedswe.cli.console import console, print_json, print_table
from fedswe.comparison.labels import label_of
from fedswe.errors import mistakes_as
from fedswe.registry import KINDS, kind_of

FAMILIES = {  # * is recommended
    "plain averages": "fedavg fedavg_all fedavg_known gfedavg fednova fedexp* ghbm local_ghbm",
    "interval weights": "fedau f3ast debiased_fedavg echo interval_weights interval_extrapolation keel",
    "client models": "fedswe fedawe fedswe_variant bounded_fedswe fedpbc area",
    "memories": "mifa fedvarp fedstale fedstale_known fedlaavg decayed_memory mimic scaffold amplified_scaffold focus",
    "asynchronous": "fedasync fedbuff ace ca2fl",
}
_COUNTED = ("kept at the server", "kept at each client", "down before the work", "up", "reply after the merge")


def _complete(incomplete: str) -> list[tuple[str, str]]:
    return [
        (name, title) for kind in KINDS for name, title in registry.titles(kind).items() if name.startswith(incomplete)
    ]


def list_command(
    kind: Annotated[str, typer.Argument(click_type=click.Choice(["", *KINDS, "all"]), metavar="[KIND]")] = "",
    as_json: Json = False,
) -> None:
    """List the algorithms by family; or the parts of a kind, or all, with a line about each."""
    titles = {known: registry.titles(known) for known in KINDS if kind in (known, "all") or (as_json and not kind)}
    if as_json:
        print_json(titles)
        return
    for known, named in titles.items():
        print_table(known, ("name", "title"), named.items())
    if not kind:
        listed = " ".join(FAMILIES.values()).replace("*", "").split()
        families = FAMILIES | {"others": " ".join(n for n in registry.names("algorithm") if n not in listed)}
        rows = [(family, names.replace(" ", ", ")) for family, names in families.items() if names]
        print_table("algorithms (*: recommended, see docs/which-rule.md)", ("family", "names"), rows)
        console.print(f"a line about each: fedswe list KIND, where KIND is {', '.join(KINDS)} or all")
    console.print("fedswe show NAME explains one of them")


def show_command(
    name: Annotated[str, typer.Argument(help="A name from `fedswe list`, or module:Class", autocompletion=_complete)],
    as_json: Json = False,
) -> None:
    """Explain a name of `fedswe list` or a class of yours: formula, parameters, memory, messages, citation."""
    head = name.partition(":")[0]  # of a label: keel:power=0
    name = head if any(head in registry.names(kind) for kind in KINDS) else name
    found = [description(kind, name, cls) for kind, cls in registry.find(name)]
    if as_json:
        print_json(found[0])
        return
    for entry in found:
        _print(entry)


def description(section: str, name: str, cls: type[Any]) -> dict[str, Any]:
    """What `show` prints of a class, as values."""
    comments, text = _comments(cls), inspect.getdoc(cls) or ""
    entry: dict[str, Any] = {
        "section": section,
        "name": name,
        "title": registry.title_of(cls),
        # What dataclass writes where there is no docstring is no description.
        "description": "" if text.startswith(f"{cls.__name__}(") else text,
        "parameters": [
            {"key": f.name, "default": _default(f), "meaning": comments.get(f.name, "")} for f in fields(cls) if f.init
        ],
    }
    if section == "algorithm":
        entry["numbers"] = dict(zip(_COUNTED, _counted(cls), strict=True))
        entry["trains_while_absent"] = cls.trains_while_absent
        entry["needs_probabilities"] = cls.needs_probabilities
        entry["citation"] = getattr(cls, "citation", "none")
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
            console.print("needs the true probabilities p_i^t, which no real client knows")
        console.print(f"\nReference: {entry['citation']}")


def _default(field: Field[Any]) -> Any:
    made = None if field.default is MISSING else field.default
    if field.default_factory is not MISSING:
        made = field.default_factory()
    kind = kind_of(type(made))
    return label_of(kind, made) if kind else made  # another part, by its name


def _comments(cls: type[Any]) -> dict[str, str]:
    """The comment beside each field, which is where its meaning is written."""
    found: dict[str, str] = {}
    for owner in reversed(cls.__mro__):
        if owner.__module__ in ("abc", "builtins", "typing"):
            continue
        with suppress(OSError):  # a class that was made of a function has no source
            found |= dict(re.findall(r"^    (\w+): [^\n]*?  # (.+)$", inspect.getsource(owner), re.MULTILINE))
    return found


def _counted(cls: type[Any]) -> list[str]:
    from fedswe.core.footprint import footprint, in_d

    d = 1000  # any size larger than the number of scalars an algorithm keeps
    with mistakes_as(f"{cls.__name__}: its messages cannot be counted"):
        count = footprint(cls(), d)
    return [in_d(n, d) for n in (count.server, count.client, count.down, count.up, count.reply)]
