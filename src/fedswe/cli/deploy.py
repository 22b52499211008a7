"""fedswe deploy init, status; status works without Flower."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedswe.cli.arguments import Json
from fedswe.cli.console import console, print_json
from fedswe.cli.deploy_verify import RunFolder
from fedswe.errors import FedsweError, require

if TYPE_CHECKING:
    from fedswe.deploy.ledger import Entry

_SHOWN = 5  # latest rounds that `status` prints

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


def status_command(run: RunFolder, as_json: Json = False) -> None:
    """Say how far a run is, which clients reported, and how many bytes were sent."""
    from fedswe.deploy import ledger

    contents = ledger.read(run / ledger.FILE)
    title, entries = contents.title, contents.entries
    rounds = _rounds(run)
    traffic, refused, last = Counter[str](), Counter[tuple[int, str]](), dict[int, int]()
    for entry in entries:
        traffic.update(entry.traffic)
        last |= dict.fromkeys(entry.merged, entry.t)
        for client, why in entry.rejected.items():
            refused.update({(client, reason): times for reason, times in why.items()})
    absent = {i: len(entries) - 1 - last.get(i, -1) for i in range(title.m)}
    absent = {client: n for client, n in absent.items() if n}
    write_ms = 1000 * sum(entry.seconds for entry in entries) / len(entries) if entries else None
    if as_json:
        print_json(
            {
                "rounds": rounds,
                "committed": len(entries),
                "clients": title.m,
                "bytes": dict(sorted(traffic.items())),
                "write_ms_per_round": write_ms,
                "absent_rounds": absent,
                "rejected": [{"client": c, "reason": reason, "times": n} for (c, reason), n in refused.items()],
            }
        )
        return
    console.print(f"rounds    {len(entries)} of {rounds} committed")
    for entry in entries[-_SHOWN:]:
        console.print(round_line(entry, rounds))
    console.print("traffic   " + (", ".join(f"{kind} {size(n)}" for kind, n in sorted(traffic.items())) or "nothing"))
    if write_ms is not None:
        console.print(f"writes    {write_ms:.1f} ms per round for ledger, models and fsync")
    console.print("absent    " + (", ".join(f"client {i} for {n} rounds" for i, n in absent.items()) or "none"))
    who = ", ".join(f"client {client}, {reason} ({n})" for (client, reason), n in refused.items())
    console.print("rejected  " + (who or "nothing"))


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


def _rounds(run: Path) -> int:
    """Read without building the experiment, whose task may not be installed here."""
    from fedswe.deploy.deployment import FILE
    from fedswe.experiment.configuration import read

    rounds: Any = read(run / FILE).get("rounds")
    require(type(rounds) is int, f"{run / FILE} does not say how many rounds: restore it from a backup")
    return int(rounds)
