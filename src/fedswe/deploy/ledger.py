"""The ledger: one line of JSON per event, each with the SHA-256 of the line before it. Appending a line commits it.

The first line identifies the run. A line of the kind "round" commits a round: which clients were merged, and digests of
everything the round depends on or has written. Other lines record evaluations, changes that an operator or the server
has made (clients set aside, rounds taken back), and starts of the server.

The hash chain shows any change of a line, unless all later lines are rewritten as well. Against that, each line has a
seal: an HMAC with a key that is kept outside the run directory (``ledger_key``).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedswe.availability.schedule import Bools
from fedswe.deploy import durable_files
from fedswe.deploy.ledger_key import LedgerKey
from fedswe.errors import FedsweError, require
from fedswe.results.history import Row

FILE = "ledger.jsonl"
VERSION = 2

Action = Literal["evict", "admit", "join", "leave", "rollback"]


@dataclass(frozen=True)
class Title:
    """The first line."""

    run: str  # random identifier of this run
    plan: str  # digest of the configuration that server and clients share
    start: str  # digest of x^0
    m: int
    version: int = VERSION


@dataclass(frozen=True)
class Entry:
    """A committed round."""

    t: int
    merged: dict[int, int]  # A^t: client -> the round it was merged in before this one (-1: never)
    model: str  # digest of x^{t+1}
    reply: str  # digest of the reply
    down: str = ""  # digest of the data sent to all clients of the round
    jobs: dict[int, str] = field(default_factory=dict)  # digests of the jobs, where the server plans them
    reports: dict[int, str] = field(default_factory=dict)  # digests of what the merged clients sent
    moves: dict[int, float] = field(default_factory=dict)  # how far (L2) each merged client moved in local training
    files: dict[str, str] = field(default_factory=dict)  # name -> digest of each file written for this round
    declined: int = 0
    rejected: dict[int, dict[str, int]] = field(default_factory=dict)  # client -> reason -> number of messages
    traffic: dict[str, int] = field(default_factory=dict)  # "down job", "up report", ... -> bytes since the last commit
    seconds: float = 0.0  # durable writes of this round, and the fsync of the line before
    available: int = 0  # clients that were connected and did not decline


@dataclass(frozen=True)
class Evaluation:
    """A row of history.csv."""

    row: Row


@dataclass(frozen=True)
class Change:
    """A decision between two rounds, by an operator or by the server."""

    action: Action
    t: int  # the first round it applies to; for rollback the round that is run next
    client: int = -1
    reason: str = ""


@dataclass(frozen=True)
class Start:
    """A start of the server."""

    t: int  # the first round it runs
    epoch: str
    files: dict[str, str]  # name -> digest of the files it wrote at its start


Line = Title | Entry | Evaluation | Change | Start
_KINDS: dict[str, type[Line]] = {
    "run": Title,
    "round": Entry,
    "evaluation": Evaluation,
    "change": Change,
    "start": Start,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


@dataclass
class Contents:
    """What a ledger says. Rounds that were taken back are left out."""

    title: Title
    entries: list[Entry] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)  # evaluations, in the order of rounds
    changes: list[Change] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)  # the digest of every line, in order
    unsealed: list[int] = field(default_factory=list)  # lines without a seal that this machine's key can check
    size: int = 0  # bytes of all complete lines

    @property
    def evicted(self) -> set[int]:
        """The clients that are not asked."""
        found = set[int]()
        for change in self.changes:
            if change.action == "evict":
                found.add(change.client)
            elif change.action == "admit":
                found.discard(change.client)
        return found

    def add(self, line: Line) -> None:
        match line:
            case Title():
                raise ValueError("a second first line")
            case Entry():
                _demand(line.t == len(self.entries), "a round out of order")
                self.entries.append(line)
            case Evaluation():
                self.rows = [row for row in self.rows if row["round"] < line.row["round"]] + [line.row]
            case Change(action="rollback"):
                _demand(0 <= line.t <= len(self.entries), "a rollback to a round that does not exist")
                self.entries = self.entries[: line.t]
                self.rows = [row for row in self.rows if row["round"] <= line.t]
                self.changes = [change for change in self.changes if change.t <= line.t] + [line]
            case Change():
                self.changes.append(line)
            case Start():
                self.starts.append(line)


class Reader:
    """Reads a ledger, and later only the lines that were added."""

    def __init__(self, path: Path) -> None:
        self._path, self._key = path, LedgerKey.find()
        self._contents: Contents | None = None

    def read(self) -> Contents:
        """The contents now. An incomplete last line is ignored: it was never committed."""
        known = self._contents
        try:
            with open(self._path, "rb") as file:
                if known is not None and os.fstat(file.fileno()).st_size < known.size:
                    known = None  # cut back by hand, or another run
                file.seek(known.size if known else 0)
                *lines, _ = file.read().split(b"\n")
        except OSError:
            raise FedsweError(f"{self._path.parent} holds no deployment (no {self._path.name})") from None
        for text in lines:
            number = len(known.heads) + 1 if known else 1
            try:
                known = self._with_line(known, text)
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                reason = str(error) if type(error) is ValueError else "not a line of a ledger"
                raise FedsweError(
                    f"{self._path}: line {number} is damaged ({reason}): restore the directory from a backup"
                ) from None
        require(known is not None, f"{self._path} is empty: restore the directory from a backup")
        assert known is not None
        self._contents = known
        return known

    def _with_line(self, known: Contents | None, text: bytes) -> Contents:
        table = json.loads(text)
        seal = table.pop("seal", "")
        body = _text(table)
        _demand(text == (_sealed(body, seal) if seal else body), "not in the form in which it was written")
        before = known.heads[-1] if known else ""
        _demand(table.pop("previous") == before, "it does not follow from the line before")
        line = _parsed(table)
        if known is None:
            _demand(isinstance(line, Title), "it does not name the run")
            assert isinstance(line, Title)
            known = Contents(line)
        else:
            known.add(line)
        if not self._key.checks(seal):
            known.unsealed.append(len(known.heads) + 1)
        else:
            _demand(self._key.seal(body) == seal, "its seal is not of this line")
        known.heads.append(digest(text))
        known.size += len(text) + 1
        return known


def read(path: Path) -> Contents:
    return Reader(path).read()


def begin(path: Path, title: Title) -> None:
    """Write the first line; the run can then be resumed."""
    durable_files.write_whole(path, _line(title, "", LedgerKey.of_this_machine()) + b"\n")


class Ledger:
    """The ledger of a running server."""

    def __init__(self, path: Path, contents: Contents) -> None:
        """Continue after the given contents; later bytes were never committed and are removed."""
        self._path, self._size, self.head = path, contents.size, contents.heads[-1]
        self._key = LedgerKey.of_this_machine()
        self._handle = os.open(path, os.O_RDWR)
        os.ftruncate(self._handle, self._size)

    def append(self, line: Line) -> None:
        """Commit a line."""
        text = _line(line, self.head, self._key)
        self._size = durable_files.append(self._path, self._handle, self._size, text + b"\n")
        self.head = digest(text)

    def close(self) -> None:
        os.close(self._handle)


def merged_mask(entries: Sequence[Entry], m: int) -> Bools:
    """The availability that happened, as the simulator replays it: [rounds, m], true where a client was merged."""
    mask = np.zeros((len(entries), m), dtype=bool)
    for entry in entries:
        mask[entry.t, list(entry.merged)] = True
    return mask


def digest(content: bytes) -> str:
    """The SHA-256 of a line or a file, shortened to 32 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()[:32]


# lines as text ------------------------------------------------------------------------------------------
def _line(line: Line, previous: str, key: LedgerKey) -> bytes:
    body = _text({"kind": _NAMES[type(line)], **_table(line), "previous": previous})
    return _sealed(body, seal) if (seal := key.seal(body)) else body


def _sealed(body: bytes, seal: str) -> bytes:
    return body[:-1] + b', "seal": ' + json.dumps(seal).encode() + b"}"


def _text(table: dict[str, Any]) -> bytes:
    return json.dumps(table, allow_nan=False).encode()


def _table(line: Line) -> dict[str, Any]:
    if isinstance(line, Evaluation):  # JSON has no NaN; scores of a diverged model are not finite
        return {"row": {name: v if math.isfinite(v) else str(v) for name, v in line.row.items()}}
    return asdict(line)


def _parsed(table: dict[str, Any]) -> Line:
    kind = table.pop("kind")
    if kind == "round":
        for name in ("merged", "jobs", "reports", "moves", "rejected"):
            table[name] = {int(client): value for client, value in table[name].items()}
    elif kind == "evaluation":
        return Evaluation({name: float(v) if isinstance(v, str) else v for name, v in table.pop("row").items()})
    elif kind == "run":
        version = table.get("version", 1)
        _demand(version == VERSION, f"written in version {version} of the format, this fedswe reads {VERSION}")
    return _KINDS[kind](**table)


def _demand(condition: object, reason: str) -> None:
    if not condition:
        raise ValueError(reason)
