"""A federation in one SQLite file: a round is committed whole, in one transaction, or not at all.

Rounds are counted from 1, as in Flower. Server and clients have a row for every round that changed them, valid from
that round on; rows that none of the last ten rounds needs are deleted. Tensors of more than 8 MB are files in a folder
beside the database: to write 100 MB, SQLite takes 0.46 s and 200 MB of memory, a file 0.11 s (benchmarks/store.py).
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import safetensors.torch

from fedswe.core.algorithm import Done
from fedswe.core.records import Vector
from fedswe.errors import FedsweError, mistakes_as, require
from fedswe.flower.federation import Federation, Member, Tensors

Reports = Mapping[str, Callable[[], Done]]

LARGE = 8 << 20  # bytes
ROUNDS_KEPT = 10  # to which one can go back
_VERSION = 1
_IN_FILE = "typeof(tensors) = 'text'"
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS fact (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS round (round INTEGER PRIMARY KEY, entry TEXT NOT NULL, scores TEXT);
CREATE TABLE IF NOT EXISTS attempt (round INTEGER, failed TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS member (name TEXT PRIMARY KEY, number INTEGER, joined INTEGER);
CREATE TABLE IF NOT EXISTS removal (name TEXT PRIMARY KEY, time REAL);
CREATE TABLE IF NOT EXISTS model (round INTEGER PRIMARY KEY, tensors);
CREATE TABLE IF NOT EXISTS server (round INTEGER PRIMARY KEY, tensors);
CREATE TABLE IF NOT EXISTS client (name TEXT, round INTEGER, merged INTEGER, received INTEGER, holds INTEGER, tensors,
    PRIMARY KEY (name, round));
CREATE INDEX IF NOT EXISTS client_holds ON client (holds);
CREATE INDEX IF NOT EXISTS client_received ON client (received);
CREATE TABLE IF NOT EXISTS report (name TEXT, round INTEGER, steps INTEGER, lr REAL, tensors,
    PRIMARY KEY (name, round));
INSERT OR IGNORE INTO fact VALUES ('format', {_VERSION}), ('id', abs(random()));
"""


class Records:
    """What a store says of rounds and clients; it can be read while a server writes, and clients can be removed."""

    def __init__(self, path: str | Path, script: str = "") -> None:
        """The store in this file, which must exist; the script makes its tables."""
        require(Path(path).is_file(), f"there is no store {path}")
        uri = f"{Path(path).resolve().as_uri()}?mode=rw"
        self._db = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=60)
        try:
            self._db.execute("PRAGMA synchronous = FULL")
            tables = {name for (name,) in self._db.execute("SELECT name FROM sqlite_master")}
            require(not tables or "fact" in tables, f"{path} is the database of another program")
            self._db.execute("PRAGMA journal_mode = WAL")  # who reads does not stop who writes
            self._db.executescript(f"BEGIN; {script} COMMIT;")
            version = self.facts().get("format")
        except sqlite3.DatabaseError as error:
            raise FedsweError(f"{path} is not a store of fedswe ({error})") from None
        require(version == _VERSION, f"{path} is of another version of fedswe: continue it with that one")

    def close(self) -> None:
        self._db.close()

    def facts(self) -> dict[str, Any]:
        return {name: json.loads(value) for name, value in self._db.execute("SELECT name, value FROM fact")}

    def rounds(self) -> list[dict[str, Any]]:
        """The committed rounds, each with the metrics of its model if it was evaluated."""
        found = self._db.execute("SELECT round, entry, ifnull(scores, '{}') FROM round ORDER BY round")
        return [{"round": r, **json.loads(entry), **json.loads(scores)} for r, entry, scores in found]

    def attempts(self, r: int) -> list[dict[str, str]]:
        """The failures of each attempt at a round that was not counted."""
        found = self._db.execute("SELECT failed FROM attempt WHERE round = ? ORDER BY rowid", (r,))
        return [json.loads(failed) for (failed,) in found]

    def members(self) -> dict[str, Member]:
        query = (
            "SELECT member.name, number, joined, merged, coalesce(received, 0), holds, max(client.round) FROM member"
            " JOIN client ON client.name = member.name GROUP BY member.name ORDER BY number"
        )
        return {name: Member(*columns) for name, *columns, _ in self._db.execute(query)}

    def removed(self) -> set[str]:
        return {name for (name,) in self._db.execute("SELECT name FROM removal")}

    def remove(self, name: str, undo: bool) -> None:
        """Note that a client is gone for good, or is not."""
        require(name in self.members(), f"{name} is no client of this federation: see fedswe flower status")
        self._db.execute("DELETE FROM removal WHERE name = ?", (name,))
        if not undo:
            self._db.execute("INSERT INTO removal VALUES (?, ?)", (name, time.time()))


class Store(Records):
    """Where a Strategy keeps a federation. Only one process at a time may write rounds."""

    def __init__(self, path: str | Path, new: bool = False) -> None:
        """The store in this file; with `new` it is made if it does not exist."""
        self.path = Path(path).resolve()
        self._folder = self.path.with_name(f"{self.path.name}.tensors")
        require(new or self.path.is_file(), f"there is no store {path}")
        require(self.path.parent.is_dir(), f"store: there is no folder {self.path.parent}")
        self._lock = open(f"{self.path}.lock", "w")  # noqa: SIM115  held until the store is closed
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if new:
                self.path.touch()
            super().__init__(self.path, _SCHEMA if new else "")
        except BaseException as error:
            self._lock.close()
            require(not isinstance(error, BlockingIOError), f"{path} is in use by another server: stop that one first")
            raise
        self._sweep()

    def close(self) -> None:
        super().close()
        self._lock.close()

    # writing -------------------------------------------------------------------------------------------
    def write_facts(self, facts: Mapping[str, Any]) -> None:
        rows = [(name, json.dumps(value)) for name, value in facts.items()]
        self._db.executemany("INSERT OR REPLACE INTO fact VALUES (?, ?)", rows)

    def begin(self, facts: Mapping[str, Any], federation: Federation) -> None:
        """Before the first round."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self.write_facts(facts)
            self._write_state(federation)

    def commit(self, federation: Federation, entry: Mapping[str, Any], reports: Reports) -> None:
        """The round that the federation has just advanced to, and its reports if they are kept."""
        t = federation.t
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            text = json.dumps({"time": time.time(), **entry})
            self._db.execute("INSERT INTO round (round, entry) VALUES (?, ?)", (t, text))
            for name in sorted(federation.changed):
                member, packed = federation.members[name], self._packed(federation.own_tensors(name))
                seen = member.received if federation.needs_received else None
                values = [name, t, member.merged, seen, member.holds, packed]
                self._db.execute("INSERT INTO client VALUES (?, ?, ?, ?, ?, ?)", values)
                values = [name, member.number, member.joined]
                self._db.execute("INSERT OR IGNORE INTO member VALUES (?, ?, ?)", values)
            for name, read in reports.items():
                done = read()
                values = [name, t, done.steps, done.lr, self._packed({"end": done.end})]
                self._db.execute("INSERT INTO report VALUES (?, ?, ?, ?, ?)", values)
            self._write_state(federation)
            unused = self._prune(t - ROUNDS_KEPT)
        for name in unused:
            (self._folder / name).unlink(missing_ok=True)

    def _write_state(self, federation: Federation) -> None:
        t = federation.t
        self._db.execute("INSERT INTO model VALUES (?, ?)", (t, self._packed({"x": federation.server.model})))
        self._db.execute("INSERT INTO server VALUES (?, ?)", (t, self._packed(federation.tensors())))

    def _prune(self, before: int) -> list[str]:
        """Delete what only rounds before this one need; the files that are not needed any more."""
        dropped = []
        for condition in (
            "server WHERE round < ?",
            "client WHERE round < (SELECT max(round) FROM client AS c WHERE c.name = client.name AND c.round <= ?)",
            "model WHERE round BETWEEN 1 AND ? - 1 AND round NOT IN (SELECT holds FROM client WHERE holds NOT NULL)"
            " AND round NOT IN (SELECT received FROM client WHERE received NOT NULL)",
        ):
            dropped += self._db.execute(f"SELECT tensors FROM {condition} AND {_IN_FILE}", (before,)).fetchall()
            self._db.execute(f"DELETE FROM {condition}", (before,))
        return [name for (name,) in dropped]

    def note_attempt(self, r: int, failed: Mapping[str, str]) -> None:
        """A round that was not counted."""
        self._db.execute("INSERT INTO attempt VALUES (?, ?)", (r, json.dumps(failed)))

    def note_scores(self, r: int, scores: Mapping[str, Any]) -> None:
        """The metrics of a model."""
        self._db.execute("UPDATE round SET scores = ? WHERE round = ?", (json.dumps(scores), r))
        if not r:  # of the start, which no round made
            self.write_facts(scores)

    # reading -------------------------------------------------------------------------------------------
    def model(self, version: int) -> Vector:
        return self._read("model WHERE round = ?", version)["x"]

    def client(self, name: str) -> Tensors:
        return self._read("client WHERE name = ? ORDER BY round DESC LIMIT 1", name)

    def server(self, r: int) -> Tensors:
        return self._read("server WHERE round = ?", r)

    def reports(self, r: int) -> dict[str, tuple[int, float, Vector]]:
        query = "SELECT name, steps, lr, tensors FROM report WHERE round = ?"
        found = self._db.execute(query, (r,))
        return {name: (steps, lr, self._unpacked(packed)["end"]) for name, steps, lr, packed in found}

    # tensors -------------------------------------------------------------------------------------------
    def _packed(self, tensors: Tensors) -> bytes | str | None:
        """What a column holds: the tensors, or the name of their file, which is on the disk before the commit."""
        if not tensors:
            return None
        # A chain may begin with one tensor under two names, which safetensors refuses.
        places = Counter(value.data_ptr() for value in tensors.values())
        tensors = {n: v.clone() if places[v.data_ptr()] > 1 else v.contiguous() for n, v in tensors.items()}
        if sum(value.nbytes for value in tensors.values()) <= LARGE:
            return safetensors.torch.save(tensors)
        self._folder.mkdir(exist_ok=True)
        name = f"{self.facts()['id']}-{uuid4().hex}.safetensors"  # files of another store may be there
        safetensors.torch.save_file(tensors, self._folder / name)
        for path in (self._folder / name, self._folder, self._folder.parent):
            place = os.open(path, os.O_RDONLY)
            os.fsync(place)
            os.close(place)
        return name

    def _read(self, where: str, value: object) -> Tensors:
        row = self._db.execute(f"SELECT tensors FROM {where}", (value,)).fetchone()
        require(row, f"{self.path}: a row of the table {where.split()[0]} is missing: restore it from a copy")
        return self._unpacked(row[0])

    def _unpacked(self, packed: bytes | str | None) -> Tensors:
        if packed is None:
            return {}
        with mistakes_as(f"{self.path}: tensors cannot be read", ": restore it from a copy"):
            if isinstance(packed, bytes):
                return safetensors.torch.load(packed)
            return safetensors.torch.load_file(self._folder / Path(packed).name)

    def _sweep(self) -> None:
        """Delete the files that no row names: of rows that were deleted, or of a commit that was cut off."""
        if not self._folder.is_dir():
            return
        named = set[str]()
        for table in ("model", "server", "client", "report"):
            named |= {name for (name,) in self._db.execute(f"SELECT tensors FROM {table} WHERE {_IN_FILE}")}
        for path in self._folder.glob(f"{self.facts()['id']}-*"):
            if path.name not in named:
                path.unlink()

    # commands ------------------------------------------------------------------------------------------
    def rollback(self, to: int) -> None:
        """Cut off all rounds after this one."""
        first, last = self._db.execute("SELECT ifnull(min(round), 0), ifnull(max(round), 0) FROM server").fetchone()
        require(first <= to <= last, f"--to must be a round of {first} to {last}: others are not kept")
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            for table in ("server", "model", "client", "report", "round", "attempt"):
                self._db.execute(f"DELETE FROM {table} WHERE round > ?", (to,))
            for table in ("member", "removal"):
                self._db.execute(f"DELETE FROM {table} WHERE name NOT IN (SELECT name FROM client)")
        self._sweep()
