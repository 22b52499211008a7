"""What a run directory holds now, also while its server is at work."""

from __future__ import annotations

from pathlib import Path

from fedswe.core.records import Vector
from fedswe.deploy import ledger
from fedswe.deploy.agreement import Agreement
from fedswe.deploy.ledger import Entry
from fedswe.deploy.roster import Roster
from fedswe.deploy.store import Store
from fedswe.errors import FedsweError


def snapshot(folder: Path, agreement: Agreement) -> tuple[list[Entry], dict[str, Vector]]:
    """The committed rounds, and both models after the last of them."""
    store, algorithm = Store(folder), agreement.algorithm
    while True:
        _, entries, size = ledger.read(folder / ledger.FILE)
        roster = Roster(agreement, store)
        for entry in entries:
            roster.note(entry)
        server = algorithm.server_init(agreement.start)
        try:
            if entries:
                server = store.state(len(entries), server)
            return entries, {"server": algorithm.model(server), "client_mean": roster.mean()}
        except FedsweError:
            # A server that has committed another round meanwhile removes the files of the one before.
            if ledger.read(folder / ledger.FILE)[2] == size:
                raise
