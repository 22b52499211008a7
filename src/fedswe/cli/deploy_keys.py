"""fedswe deploy keys: which node key each client has, and which keys the SuperLink admits."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedswe.cli.arguments import Json
from fedswe.cli.console import console, print_json
from fedswe.cli.deploy_arguments import AppFolder, need_flower
from fedswe.errors import FedsweError, require, warn

if TYPE_CHECKING:
    from fedswe.deploy.flower.registration import Connection

Number = Annotated[int, typer.Argument(metavar="CLIENT", help="The number of the client")]
SuperLink = Annotated[
    str,
    typer.Option(
        "--superlink",
        metavar="NAME",
        help="The SuperLink: a connection of config.toml in FLWR_HOME; default: that of the trial that `up` runs",
    ),
]


def list_command(folder: AppFolder = Path(), superlink: SuperLink = "", as_json: Json = False) -> None:
    """Say which client has which key, and which of them the SuperLink admits."""
    need_flower()
    from fedswe.deploy.flower.node_keys import fingerprint, read_keys
    from fedswe.deploy.flower.registration import registered

    keys = read_keys(folder)
    connection = _connection(folder, superlink)
    nodes = {node.key: node for node in registered(connection)} if connection else {}
    rows = []
    for client, key in enumerate(keys):
        node = nodes.pop(key, None) if key else None
        status = "not asked" if connection is None else "not registered" if node is None else node.status
        rows.append(
            {
                "client": client,
                "fingerprint": fingerprint(key) if key else None,
                "node": str(node.node) if node else None,  # too large for a number in JSON
                "status": status if key else "revoked",
            }
        )
    others = [node for node in nodes.values() if node.admitted]
    rows += [
        {"client": None, "fingerprint": fingerprint(node.key), "node": str(node.node), "status": node.status}
        for node in others
    ]
    if as_json:
        print_json({"superlink": connection.address if connection else None, "keys": rows})
        return
    for row in rows:
        who = f"client {row['client']}" if row["client"] is not None else "no client"
        at = f", node {row['node']}" if row["node"] else ""
        console.print(f"{who:<9} {row['fingerprint'] or 'no key'}: {row['status']}{at}")
    if others:
        console.print("next      keys of no client are removed by `fedswe deploy keys sync`")


def rotate_command(
    folder: AppFolder,
    client: Number,
    key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The public key that was made at the client; default: make a new pair here"),
    ] = None,
    superlink: SuperLink = "",
) -> None:
    """Give a client or the next number a key, also after `revoke`; its old key is not admitted any more."""
    need_flower()
    from fedswe.deploy.flower.credentials import write_key_pair
    from fedswe.deploy.flower.node_keys import canonical_key, read_keys, write_lines

    lines = _lines(folder, client, new=1)
    if key is not None:
        try:
            line = key.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise FedsweError(f"cannot read {key}: {error}") from None
        require("\n" not in line, f"{key} must hold one public key, e.g. of ssh-keygen -t ecdsa -b 384")
        new = canonical_key(line)
        taken = [number for number, other in enumerate(read_keys(folder)) if other == new]
        require(
            taken in ([], [client]),
            f"{key} is already the key of client {taken and taken[0]}: make a new one with ssh-keygen",
        )
        lines[client] = line
    else:
        require((folder / "keys").is_dir(), f"{folder} has no folder keys: give the client's public key with --key")
        lines[client] = write_key_pair(folder / "keys", client)
    write_lines(folder, lines)
    console.print(f"rotated   client {client}: {folder / 'clients.toml'} has its key")
    _apply(folder, superlink)


def revoke_command(folder: AppFolder, client: Number, superlink: SuperLink = "") -> None:
    """Take the key of a client away: its node is refused; the client keeps its number."""
    need_flower()
    from fedswe.deploy.flower.node_keys import write_lines

    lines = _lines(folder, client)
    require(lines[client], f"client {client} has no key: `fedswe deploy keys rotate` gives it one")
    lines[client] = ""
    write_lines(folder, lines)
    console.print(f"revoked   client {client}: {folder / 'clients.toml'} has no key of it")
    _apply(folder, superlink)


def sync_command(folder: AppFolder = Path(), superlink: SuperLink = "") -> None:
    """Make the SuperLink admit the keys of clients.toml, and no others."""
    need_flower()
    connection = _connection(folder, superlink)
    require(
        connection is not None,
        f"no trial of {folder} runs here: start it with `fedswe deploy up`, or name a SuperLink with --superlink",
    )
    assert connection is not None
    _synchronise(folder, connection)


def _apply(folder: Path, superlink: str) -> None:
    connection = _connection(folder, superlink)
    if connection is not None:
        _synchronise(folder, connection)
        console.print("next      submit the app again: a run that was submitted before knows the keys it began with")
    else:
        console.print("next      `fedswe deploy up` or `fedswe deploy keys sync --superlink NAME` tells the SuperLink")


def _synchronise(folder: Path, connection: Connection) -> None:
    from fedswe.deploy.flower.node_keys import read_keys
    from fedswe.deploy.flower.registration import synchronise

    changes = synchronise(connection, read_keys(folder))
    added = f"{len(changes.added)} keys added" + "".join(f", client {client}" for client in changes.added)
    removed = f"{len(changes.removed)} removed" + "".join(f", node {node}" for node in changes.removed)
    console.print(f"superlink {connection.address}: {added}; {removed}")
    for client in changes.unusable:
        warn(
            f"the key of client {client} was revoked before, and Flower takes no key twice: "
            f"`fedswe deploy keys rotate {folder} {client}` gives it a new one"
        )


def _lines(folder: Path, client: int, new: int = 0) -> list[str]:
    """The lines of clients.toml, and an empty one for each of the `new` clients that may be named."""
    from fedswe.deploy.flower.node_keys import read_keys, read_lines

    m = len(read_keys(folder)) + new
    require(0 <= client < m, f"CLIENT must be from 0 to {m - 1}, not {client}")
    return [*read_lines(folder), *[""] * new][: max(m - new, client + 1)]


def _connection(folder: Path, superlink: str) -> Connection | None:
    """The SuperLink that is named, or that of the app's trial if it runs."""
    from fedswe.deploy.flower.processes import listening
    from fedswe.deploy.flower.registration import Connection
    from fedswe.deploy.flower.trial import CONNECTION

    if superlink:
        return Connection.named(Path(os.environ.get("FLWR_HOME") or Path.home() / ".flwr"), superlink)
    home = folder / "run" / "flower"
    if not (home / "config.toml").is_file():
        return None
    connection = Connection.named(home, CONNECTION)
    return connection if listening(int(connection.address.rpartition(":")[2])) else None
