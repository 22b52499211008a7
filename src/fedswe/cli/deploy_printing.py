"""How the commands of `fedswe deploy` print rounds and sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedswe.deploy.ledger_lines import Entry


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
