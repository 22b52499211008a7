"""How a federation is: read from its store, also while a server runs."""

from __future__ import annotations

import time
from typing import Any

from fedswe.flower.store import Records


def status(records: Records, away: int) -> dict[str, Any]:
    """Rounds, clients and alarms. `away`: rounds after which the absence of a client is an alarm; 0 = never."""
    facts, rows, removed = records.facts(), records.rounds(), records.removed()
    t, last, attempts = len(rows), rows[-1] if rows else {}, records.attempts(len(rows) + 1)
    clients, alarms = [], []
    if attempts:
        why = next((f": {name}: {words}" for name, words in attempts[-1].items()), "")
        alarms.append(f"round {t + 1} was tried {len(attempts)} times and has not enough reports{why}")
    if t and not any(row["merged"] for row in rows):
        alarms.append(f"no client was merged in {t} rounds")
    for name, member in records.members().items():
        # From the newest: what the client failed with, until a round in which it was merged.
        asked: list[str | None] = [failed[name] for failed in reversed(attempts) if name in failed]
        asked += [row["failed"].get(name) for row in reversed(rows) if name in row["merged"] or name in row["failed"]]
        fails = next((i for i, why in enumerate(asked) if why is None), len(asked))
        client: dict[str, Any] = {
            "client": name,
            "joined": member.joined + 1,
            "merged": sum(name in row["merged"] for row in rows),
            "last_merged": member.merged or None,
            "away": next((i for i, row in enumerate(reversed(rows)) if name not in row["absent"]), t),
            "failures": fails,
            "why": asked[0] if fails else None,
            "removed": name in removed,
        }
        clients.append(client)
        if name not in removed and (fails > 1 or (fails and "not finite" in str(asked[0]))):
            alarms.append(f"client {name} failed {fails} times in a row: {asked[0]}")
        elif name not in removed and 0 < away < client["away"]:
            alarms.append(f"client {name} is away for {client['away']} rounds")
    return {
        **{name: facts.get(name) for name in ("rule", "serve", "fedswe", "flwr")},
        "rounds": t,
        "m": last.get("m"),
        "seconds_per_round": sum(row["seconds"] for row in rows) / t if t else None,
        "last_commit_seconds_ago": time.time() - last["time"] if rows else None,
        "scores": last.get("score") or last.get("evaluate") or last.get("train"),
        "clients": clients,
        "alarms": alarms,
    }
