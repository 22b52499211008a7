"""The command `fedswe deploy init`."""

from __future__ import annotations

from typing import Annotated

import typer

from fedswe.cli.console import console
from fedswe.cli.deploy_arguments import AppFolder, need_flower


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
