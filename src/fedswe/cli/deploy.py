"""fedswe deploy init, and how rounds and sizes are printed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedswe.cli.console import console
from fedswe.errors import FedsweError

if TYPE_CHECKING:
    from fedswe.deploy.ledger import Entry

AppFolder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the app")]


def init_command(
    folder: AppFolder,
    clients: Annotated[int, typer.Option(help="How many clients the federation has")] = 4,
    tls: Annotated[bool, typer.Option("--tls", help="With certificates and a key per client")] = False,
    server: Annotated[
        str, typer.Option(metavar="NAME", help="DNS name or address of the server, for its certificate; needs --tls")
    ] = "",
) -> None:
    """Write a complete Flower app."""
    need_flower()
    from fedswe.deploy.flower.app_template import write_app

    write_app(folder, clients, tls, server)
    console.print(f"app       {folder}: deployment.toml says what runs, federation/task.py takes your model and data")
    console.print(f"next      fedswe deploy up {folder}")


def need_flower() -> None:
    try:
        import flwr
        import psutil
    except ImportError as error:
        raise FedsweError(f"{error.name} is not installed: pip install 'fedswe[flower]'") from None
    del flwr, psutil


def round_line(entry: Entry, rounds: int) -> str:
    """A round in one line: which clients were merged, the bytes sent, and what was rejected."""
    who = ",".join(map(str, entry.merged)) or "none"
    up = sum(n for kind, n in entry.traffic.items() if kind.startswith("up "))
    down = sum(n for kind, n in entry.traffic.items() if kind.startswith("down "))
    refused = {client: ", ".join(why) for client, why in entry.rejected.items()}
    rejected = "".join(f"  client {client} rejected ({why})" for client, why in refused.items())
    return f"round {entry.t + 1}/{rounds}  clients {who}  up {size(up)} down {size(down)}{rejected}"


def size(count: float) -> str:
    """A number of bytes with a unit."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"
