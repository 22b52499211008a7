"""fedswe list, fedswe show."""

from __future__ import annotations

import inspect
import re
from dataclasses import MISSING, fields
from typing import Any

from rich.console import Console
from rich.table import Table

from fedswe import registry
from fedswe.core.footprint import footprint, in_d
from fedswe.errors import FedsweError

_D = 1000  # any width larger than the number of scalars an algorithm keeps
_console = Console(highlight=False, soft_wrap=True)


def list_command() -> None:
    for kind in registry.KINDS:
        table = Table("name", "what it is", title=kind, title_justify="left", min_width=60)
        for name, title in registry.titles(kind).items():
            table.add_row(name, title)
        _console.print(table)
    _console.print("fedswe show NAME explains one of them")


def show_command(name: str) -> None:
    for section, cls in registry.find(name):
        _console.print(f"[bold]{name}[/bold]  {registry.title_of(cls)}\n", markup=True)
        _console.print(inspect.getdoc(cls), markup=False)
        _console.print()
        _parameters(section, cls)
        if section == "algorithm":
            _memory(cls)
            _console.print(f"\nReference: {getattr(cls, 'citation', 'none')}", markup=False)


def _parameters(section: str, cls: type[Any]) -> None:
    comments = _comments(cls)
    own = [f for f in fields(cls) if f.init]
    if not own:
        return
    table = Table("key", "default", "meaning", title=f"[{section}]".replace("[", "\\["), title_justify="left")
    for f in own:
        default = f.default if f.default is not MISSING else ""
        table.add_row(f.name, repr(default), comments.get(f.name, ""))
    _console.print(table)


def _comments(cls: type[Any]) -> dict[str, str]:
    """The comment beside each field, which is where its meaning is written."""
    found: dict[str, str] = {}
    for owner in reversed(cls.__mro__):
        if owner.__module__ not in ("builtins", "abc", "typing"):
            found |= dict(re.findall(r"^    (\w+): [^\n]*?  # (.+)$", inspect.getsource(owner), re.MULTILINE))
    return found


def _memory(cls: type[Any]) -> None:
    try:
        algorithm = cls()
        count = footprint(algorithm, _D)
    except Exception as error:  # of a user's own class, which may raise anything
        raise FedsweError(f"{cls.__name__}: its messages cannot be counted ({registry.first_line(error)})") from None
    table = Table(
        "kept at the server",
        "kept at each client",
        "down before the work",
        "up",
        "reply after the merge",
        title="numbers kept, and moved per client and round (4 bytes each in float32; d = parameters)",
        title_justify="left",
    )
    table.add_row(*(in_d(n, _D) for n in (count.server, count.client, count.down, count.up, count.reply)))
    _console.print(table)
    if algorithm.trains_while_absent:
        _console.print("absent clients train too")
    if algorithm.needs_probabilities:
        _console.print("needs the true probabilities p_i^t, which no deployed client knows")
