"""The command `fedswe watch`: the report in the browser, while runs go on."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from fedswe.cli.console import console
from fedswe.errors import require


def watch_command(
    directories: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[DIR]...", help="Runs, comparisons, gyms, or folders of these; default: runs"),
    ] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Default: 8765, or any that is free")] = None,
) -> None:
    """Show the report in the browser, on this machine only, and keep it up to date while runs go on."""
    from fedswe.report.server import ReportServer

    roots = directories or [Path("runs")]
    for root in roots:
        require(not root.is_file(), f"{root} is a file: name a directory")
    with ReportServer(roots, port) as server:
        console.print(f"watch     {server.address} (Ctrl-C ends it)")
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return
