"""A round of a deployment in words."""

from __future__ import annotations

from fedswe.deploy.ledger import Entry


def told(entry: Entry, rounds: int) -> str:
    """A round in a line: who was merged, what was moved, what was turned away."""
    who = ",".join(map(str, entry.merged)) or "nobody"
    up = sum(n for kind, n in entry.traffic.items() if kind.startswith("up "))
    down = sum(n for kind, n in entry.traffic.items() if kind.startswith("down "))
    refused = {client: ", ".join(why) for client, why in entry.rejected.items()}
    words = "".join(f"  client {client} rejected ({why})" for client, why in refused.items())
    return f"round {entry.t + 1}/{rounds}  clients {who}  up {size(up)} down {size(down)}{words}"


def size(count: float) -> str:
    """Bytes for people."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"
