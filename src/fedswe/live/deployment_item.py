"""A deployment in the list: its server, its clients, its alarms, and who was merged in which round."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from fedswe.deploy import ledger
from fedswe.deploy.ledger_lines import Entry
from fedswe.deploy.membership import Membership
from fedswe.deploy.status import ClientStatus, Status, read_status
from fedswe.errors import FedsweError, printable, require
from fedswe.live.found import DeploymentPlace
from fedswe.live.plain_files import plain, unreadable
from fedswe.live.strip import Strip

_LEDGER = 1 << 26  # bytes
_MEMBERS = 50_000  # of a deployment that is read
_LONGEST = 500  # characters of a text that is sent
_CLIENTS = 500  # that are sent: those with something to say first
_REPEAT = 5.0  # seconds between two looks at a deployment whose ledger has not grown


class DeploymentItem:
    def __init__(self, id_: str, place: DeploymentPlace) -> None:
        self.id, self.place = id_, place
        self.strip = Strip()
        self._reader = ledger.Reader(place.path / ledger.FILE)
        self._payload: dict[str, Any] = {}
        self._seen, self._looked = (0, 0), 0.0
        self._strip_of: tuple[int, str] = (0, "")  # clients, and the model after the last round of the strip

    def look(self) -> None:
        found = plain(self.place.path / ledger.FILE, _LEDGER)
        seen = (found.st_size, found.st_mtime_ns) if found else (0, 0)
        if seen == self._seen and time.monotonic() < self._looked + _REPEAT:
            return
        self._seen, self._looked = seen, time.monotonic()
        if found is None:
            self._payload = {
                "problem": f"{ledger.FILE} is missing or larger than {_LEDGER >> 20} MB: see fedswe deploy status"
            }
            return
        try:
            for line, contents in self._reader.lines():
                if isinstance(line, Entry):  # digests are most of a ledger, and not shown
                    contents.entries[-1] = replace(line, jobs={}, reports={}, moves={}, files={})
            contents = self._reader.read()
            m = Membership.of(contents).numbers
            require(m <= _MEMBERS, f"more than {_MEMBERS} clients: see fedswe deploy status")
            described = _described(read_status(self.place.path, self._reader), contents)
            json.dumps(described, allow_nan=False)  # fails here rather than for all
            self._follow(contents.entries, m)
            self._payload = described
        except Exception as error:  # no list of what may be wrong with the files of others is complete
            self._payload = {
                "problem": printable(str(error))[:_LONGEST] if isinstance(error, FedsweError) else unreadable(error)
            }
            self._reader = ledger.Reader(self.place.path / ledger.FILE)

    def _follow(self, entries: Sequence[Entry], m: int) -> None:
        known, model = self._strip_of
        done = self.strip.rounds
        if known != m or done > len(entries) or (done and entries[done - 1].model != model):
            self.strip.clear(m)  # rounds were taken back, or a client has joined
            done = 0
        for entry in entries[done:]:
            merged = np.zeros(m, dtype=bool)
            merged[list(entry.merged)] = True
            self.strip.add(merged)
        self._strip_of = m, entries[-1].model if entries else ""

    def payload(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "kind": "deployment",
            "name": self.place.name,
            "path": str(self.place.path),
            **self._payload,
        }


def _described(status: Status, contents: ledger.Contents) -> dict[str, Any]:
    activity, done = status.activity, status.totals.rounds
    if activity is not None:
        server = str(activity.doing)
    elif status.running is None:
        server = "unknown"
    elif status.running:
        server = "running"
    elif done >= status.rounds:
        server = "finished"
    else:
        server = "paused" if status.paused else "stopped" if status.stopped else "not running"
    told = sorted(status.clients, key=lambda c: not (c.silent or c.rejected or c.state == "evicted"))[:_CLIENTS]
    return {
        "round": done,
        "rounds": status.rounds,
        "server": server,
        "running": status.running,
        "members": status.members,
        "connected": len(activity.connected) if activity else None,
        "last_commit": status.last_commit,
        "served": status.served,
        "scores": {name: f"{value:.6g}" for name, value in status.scores.items()},
        "clients": [_client(client, contents) for client in sorted(told, key=lambda c: c.client)],
        "alarms": [asdict(alarm) for alarm in status.alarms],
    }


def _client(client: ClientStatus, contents: ledger.Contents) -> dict[str, Any]:
    last = client.last_merge
    return {
        "client": client.client,
        "state": "silent" if client.silent else client.state,
        "connected": client.connected,
        "last": None if last is None else last + 1,  # for people, rounds are counted from 1
        "seen": None if last is None else contents.entries[last].time,
        "echo": client.absent_rounds + 1,
        "rejected": ", ".join(f"{reason} ({times})" for reason, times in client.rejected.items())[:_LONGEST],
        "reason": client.reason[:_LONGEST],
    }
