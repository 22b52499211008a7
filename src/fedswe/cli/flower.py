"""The commands `fedswe flower`: look at the store of a federation, and change it."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from fedswe.cli.arguments import Json
from fedswe.cli.console import console, print_json, print_table
from fedswe.errors import printable

File = Annotated[str, typer.Argument(metavar="FILE", help="The store of a Strategy, such as federation.db.")]


def status_command(
    file: File,
    away: Annotated[int, typer.Option(help="Rounds of absence after which a client is an alarm; 0 = never.")] = 20,
    as_json: Json = False,
) -> None:
    """Say how far a federation is, how its clients fare, and what is wrong; exit code 1 if something is."""
    from fedswe.flower.status import status
    from fedswe.flower.store import Records

    with closing(Records(file)) as records:
        found = status(records, away)
    if as_json:
        print_json(found)
    else:
        head = f"{found['rule']}, serves {found['serve']}: {found['rounds']} rounds, {found['scores']}"
        console.print(printable(head))
        shown = ["client", "joined", "merged", "last_merged", "failures", "removed", "why"]
        rows = [[printable(str(client[key] or "")) for key in shown] for client in found["clients"]]
        print_table("", [key.replace("_", " ") for key in shown], rows)
        for alarm in found["alarms"] or ["none"]:
            console.print(printable(f"alarm: {alarm}"))
    raise typer.Exit(bool(found["alarms"]))


def rollback_command(
    file: File, to: Annotated[int, typer.Option(help="The last round that is kept, counted from 1; 0 = the start.")]
) -> None:
    """Cut off the rounds after a given one; the next start continues from there."""
    from fedswe.flower.store import Store

    with closing(Store(file)) as store:
        store.rollback(to)
    console.print(f"{file} ends after round {to}")


def remove_command(
    file: File,
    client: Annotated[str, typer.Argument(help="Its name, or else the id of its node, as status shows it.")],
    undo: Annotated[bool, typer.Option("--undo", help="Ask the client again.")] = False,
) -> None:
    """Do not ask a client any more that is gone for good; also while a server runs, from its next round on."""
    from fedswe.flower.store import Records

    with closing(Records(file)) as records:
        records.remove(client, undo)
    console.print(printable(f"client {client} is asked again" if undo else f"client {client} is not asked any more"))


def replay_command(file: File) -> None:
    """Recompute every merge from the stored reports and compare bits; needs keep_reports=True."""
    from fedswe.flower.replay import replay

    rounds, reports, wrong = replay(file)
    if wrong:
        console.print(printable(f"FAILED   {wrong}"))
        raise typer.Exit(1)
    console.print(f"passed   {rounds} rounds, {reports} reports: every merge gives the stored model, bit for bit")
    console.print("not proven: that a client trained as its report says, that this is the file the server wrote")
