"""fedswe deploy rollback, backup, restore."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedswe.cli.console import console
from fedswe.cli.deploy_arguments import OwnTasks, RunFolder, find_tasks

Archive = Annotated[Path, typer.Argument(metavar="FILE.tar", help="The backup")]


def rollback_command(
    run: RunFolder,
    to: Annotated[int, typer.Option(metavar="T", help="How many committed rounds remain")],
    reason: Annotated[str, typer.Option(help="For the ledger")] = "",
    own: OwnTasks = None,
) -> None:
    """Take the last rounds of a run back, while no server runs; the next start continues after round T."""
    from fedswe.deploy.rollback import rollback

    find_tasks(run, own)
    taken = rollback(run, to, reason)
    console.print(f"rollback  {to} rounds remain, {taken} taken back; they stay in the ledger")


def backup_command(run: RunFolder, file: Archive) -> None:
    """Write a backup of a run, also while its server runs."""
    from fedswe.deploy.backup import backup

    rounds, files = backup(run, file)
    console.print(f"backup    {file}: {rounds} rounds, {files} files, compared with the ledger")


def restore_command(
    file: Archive,
    run: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="An empty or missing directory")],
) -> None:
    """Make a run directory from a backup; the next start continues it."""
    from fedswe.deploy.backup import restore

    found = restore(file, run)
    console.print(f"restored  {run}: {found.rounds} rounds, all files have the digests in the ledger")
    if found.foreign:
        console.print(
            "note      written on another machine: this one cannot check its seals, and seals it from here on"
        )
