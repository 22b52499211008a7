"""fedswe deploy install-files and renew: what an installation on several machines needs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedswe.cli.console import console
from fedswe.cli.deploy_arguments import AppFolder, need_flower
from fedswe.errors import require


def install_files_command(
    folder: AppFolder,
    server: Annotated[str, typer.Option(metavar="NAME", help="DNS name or address that clients connect to")],
    port: Annotated[int, typer.Option(help="Port that clients connect to")] = 8443,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write")] = Path("installation"),
    compose: Annotated[bool, typer.Option("--compose", help="Docker Compose files instead of systemd units")] = False,
    programs: Annotated[str, typer.Option(help="With systemd: where flower-superlink is")] = "/opt/fedswe/bin",
    config: Annotated[str, typer.Option(help="With systemd: where certificates and keys will be")] = "/etc/fedswe",
    state: Annotated[str, typer.Option(help="With systemd: where the run will be")] = "/var/lib/fedswe",
    user: Annotated[str, typer.Option(help="With systemd: whom the programs run as")] = "fedswe",
) -> None:
    """Write the files of server and clients: nginx, systemd units or Docker Compose files, and a script each."""
    need_flower()
    from fedswe.deploy.flower import compose_files, systemd_units
    from fedswe.deploy.flower.installation import write_installation
    from fedswe.deploy.flower.places import Places

    if compose:
        places = Places(server, port, compose_files.PROGRAMS, compose_files.CONFIG, compose_files.STATE)
    else:
        places = Places(server, port, programs, config, state, user, systemd_units.SOCKET)
    write_installation(folder, out, places, compose)
    console.print(f"server    {out / 'server'}: copy it to the server, run install.sh as root; it holds a private key")
    console.print(f"client    {out / 'client'}: copy it to each client and run install.sh NUMBER as root")
    console.print("next      docs/installation.md")


def renew_command(
    folder: AppFolder,
    server: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="DNS name or address to add to the certificate")
    ] = None,
) -> None:
    """Write a new certificate of the server, with the names of the old one, by the same authority."""
    need_flower()
    from fedswe.deploy.flower.credentials import certificate_names, days_left, write_server_certificate

    keys = folder / "keys"
    require(keys.is_dir(), f"{folder} has no folder keys: `fedswe deploy init --tls` writes an app with certificates")
    certificate = keys / "server.crt"
    names = list(dict.fromkeys([*(server or []), *(certificate_names(certificate) if certificate.is_file() else [])]))
    write_server_certificate(keys, names)
    names = certificate_names(certificate)
    console.print(f"renewed   {certificate}: valid for {', '.join(names)} and {days_left(certificate)} days")
    console.print("next      restart `fedswe deploy up`, or copy server.crt and server.key to the server and restart")
