"""What a run directory holds now, also while its server is at work."""

from __future__ import annotations

from pathlib import Path

from fedswe.core.records import Vector
from fedswe.deploy import ledger
from fedswe.deploy.client_table import ClientTable
from fedswe.deploy.ledger import Entry
from fedswe.deploy.protocol import RunProtocol
from fedswe.deploy.server_files import ServerFiles
from fedswe.errors import FedsweError


def snapshot(folder: Path, protocol: RunProtocol) -> tuple[list[Entry], dict[str, Vector]]:
    """The committed rounds, and both models after the last of them."""
    store, algorithm = ServerFiles(folder), protocol.algorithm
    while True:
        _, entries, size = ledger.read(folder / ledger.FILE)
        clients = ClientTable(protocol, store)
        for entry in entries:
            clients.note(entry)
        server = algorithm.server_init(protocol.start)
        try:
            if entries:
                server = store.state(len(entries), server)
            return entries, {"server": algorithm.model(server), "client_mean": clients.mean()}
        except FedsweError:
            # A server that has committed another round meanwhile removes the files of the one before.
            if ledger.read(folder / ledger.FILE)[2] == size:
                raise
