"""The ledger: one line of JSON per event, each with the SHA-256 of the line before it. Appending a line commits it.

The first line identifies the run. A line of the kind "round" commits a round: which clients were merged, and digests of
everything the round depends on or has written. Other lines record evaluations, changes that an operator or the server
has made (clients evicted, rounds taken back, a restored backup), and starts of the server.

The hash chain shows any change of a line, unless all later lines are rewritten as well. Against that, each line has a
seal: an HMAC with a key that is kept outside the run directory (``ledger_key``). A line "restore" with this machine's
seal vouches for all lines before it: an operator has brought them from another machine.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from fedswe.availability.schedule import Bools
from fedswe.deploy import durable_files
from fedswe.deploy.ledger_key import LedgerKey
from fedswe.deploy.ledger_lines import (
    VERSION,
    Change,
    Entry,
    Evaluation,
    Line,
    Start,
    Title,
    demand,
    line_text,
    parsed,
    sealed,
    table_text,
)
from fedswe.errors import FedsweError, require
from fedswe.results.files import write_whole
from fedswe.results.history import Row

FILE = "ledger.jsonl"


@dataclass
class Contents:
    """What a ledger says. Rounds that were taken back are left out."""

    title: Title
    entries: list[Entry] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)  # evaluations, in the order of rounds
    changes: list[Change] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    in_place: list[Start] = field(default_factory=list)  # those whose files the directory may hold
    heads: list[str] = field(default_factory=list)  # the digest of every line, in order
    unsealed: list[int] = field(default_factory=list)  # lines that are not sealed with this machine's key
    brought: int = 0  # the first lines, up to this one, are of another machine and were restored here
    reached: int = 0  # the most rounds that were ever committed; more than entries after a rollback
    size: int = 0  # bytes of all complete lines
    paused: bool = False
    stopped: bool = False  # an operator has ended the last server
    progress: float = 0.0  # time of the last commit, start or resume

    @property
    def evicted(self) -> set[int]:
        """The clients that are not asked."""
        found = set[int]()
        for change in self.changes:
            if change.action == "evict":
                found.add(change.client)
            elif change.action in ("admit", "leave"):
                found.discard(change.client)
        return found

    def may_be(self, name: str) -> set[str]:
        """The digests that a file written at a start may have. A server may have ended before it wrote the file."""
        return {start.files[name] for start in self.in_place if name in start.files}

    def add(self, line: Line) -> None:
        if not isinstance(line, Start) and not (isinstance(line, Change) and line.action in ("rollback", "restore")):
            self.in_place = self.starts[-1:]  # written by a server, after the files of its start
        match line:
            case Title():
                raise ValueError("a second first line")
            case Entry():
                demand(line.t == len(self.entries), f"round {line.t} stands after {len(self.entries)} rounds")
                self.entries.append(line)
                self.progress = line.time
                self.reached = max(self.reached, len(self.entries))
            case Evaluation():
                while self.rows and self.rows[-1]["round"] >= line.row["round"]:
                    self.rows.pop()
                self.rows.append(line.row)
            case Change(action="rollback"):
                demand(0 <= line.t <= len(self.entries), "a rollback to a round that does not exist")
                self.entries = self.entries[: line.t]
                self.rows = [row for row in self.rows if row["round"] <= line.t]
                numbers = self.title.m + sum(c.action == "join" and c.t <= line.t for c in self.changes)
                # Whoever is evicted stays so, if it is still a member: what it did may be why rounds are taken back.
                evictions = ("evict", "admit")
                kept = [c for c in self.changes if c.client < numbers and (c.t <= line.t or c.action in evictions)]
                self.changes = [replace(change, t=min(change.t, line.t)) for change in kept] + [line]
            case Change(action="pause" | "resume"):  # also holds after rounds were taken back
                self.paused = line.action == "pause"
                self.progress = line.time
            case Change(action="stop"):
                self.stopped = True
            case Change():
                joined = sum(change.action == "join" for change in self.changes)
                demand(line.action != "join" or line.client == self.title.m + joined, "a client joins out of order")
                self.changes.append(line)
            case Start():
                self.stopped, self.progress = False, line.time
                self.starts.append(line)
                self.in_place.append(line)


class Reader:
    """Reads a ledger, and later only the lines that were added."""

    def __init__(self, path: Path) -> None:
        self._path, self._key = path, LedgerKey.find()
        self._contents: Contents | None = None

    def read(self) -> Contents:
        """The contents now. An incomplete last line is ignored: it was never committed."""
        deque(self.lines(), maxlen=0)  # reads all of them and keeps none
        require(self._contents is not None, f"{self._path} is empty: restore the directory from a backup")
        assert self._contents is not None
        return self._contents

    def lines(self) -> Iterator[tuple[Line, Contents]]:
        """The lines that were added since the last call, each with the contents up to it."""
        for text in self._added():
            number = len(self._contents.heads) + 1 if self._contents else 1
            if self._contents is None:
                _require_this_format(self._path, text)
            try:
                line = self._with_line(text)
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                reason = str(error) if type(error) is ValueError else "not a line of a ledger"
                raise FedsweError(
                    f"{self._path}: line {number} is damaged ({reason}): restore the directory from a backup"
                ) from None
            assert self._contents is not None
            yield line, self._contents

    def _added(self) -> list[bytes]:
        try:
            with open(self._path, "rb") as file:
                if self._contents is not None and os.fstat(file.fileno()).st_size < self._contents.size:
                    self._contents = None  # cut back by hand, or another run
                file.seek(self._contents.size if self._contents else 0)
                *lines, _ = file.read().split(b"\n")
        except OSError:
            raise FedsweError(f"{self._path.parent} holds no deployment (no {self._path.name})") from None
        # After a power failure, blocks that were not written are read as zeros.
        return lines[:-1] if lines and b"\0" in lines[-1] else lines

    def _with_line(self, text: bytes) -> Line:
        """Add a line to the contents; a line that is refused leaves them as they were."""
        known = self._contents
        table = json.loads(text)
        seal = table.pop("seal", "")
        body = table_text(table)
        demand(text == (sealed(body, seal) if seal else body), "not in the form in which it was written")
        before = known.heads[-1] if known else ""
        demand(table.pop("previous") == before, "it does not follow from the line before")
        line, own = parsed(table), self._key.checks(seal)
        demand(not own or self._key.seal(body) == seal, "its seal is not of this line")
        if known is None:
            demand(isinstance(line, Title), "it does not name the run")
            assert isinstance(line, Title)
            known = self._contents = Contents(line)
        else:
            known.add(line)
        if not own:
            known.unsealed.append(len(known.heads) + 1)
        elif isinstance(line, Change) and line.action == "restore" and known.unsealed:
            known.brought, known.unsealed = len(known.heads), []
        known.heads.append(file_digest(text))
        known.size += len(text) + 1
        return line


def _require_this_format(path: Path, first: bytes) -> None:
    """Refuse a ledger of another version; a damaged line is refused by who reads it."""
    try:
        title = json.loads(first)
        version = title.get("version", 1) if {"run", "plan", "start", "m"} <= title.keys() else VERSION
        earlier = version < VERSION
    except (ValueError, TypeError, AttributeError, RecursionError):
        return
    which = "an earlier" if earlier else "a later"
    require(
        version == VERSION,
        f"{path} was written by {which} version of fedswe (format {version}, this one reads {VERSION}): "
        f"{'finish the run with that version, or start a new run' if earlier else 'update fedswe'}",
    )


def read(path: Path) -> Contents:
    return Reader(path).read()


def require_own_seals(folder: Path, contents: Contents) -> None:
    """Refuse to continue a ledger that this machine has not written."""
    require(
        not contents.unsealed or not LedgerKey.find().secret,
        f"{folder / FILE}: line {contents.unsealed[0] if contents.unsealed else 0} is not sealed with the key in "
        f"{LedgerKey.path()}: it was changed, or written on another machine; copy that machine's key, "
        "or move the run with `fedswe deploy backup` and `restore`",
    )


def begin(path: Path, title: Title) -> None:
    """Write the first line; the run can then be resumed."""
    write_whole(path, line_text(title, "", LedgerKey.of_this_machine()) + b"\n")


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
        if isinstance(line, Entry | Change | Start):
            line = replace(line, time=round(time.time(), 3))
        text = line_text(line, self.head, self._key)
        self._size = durable_files.append(self._path, self._handle, self._size, text + b"\n")
        self.head = file_digest(text)

    def close(self) -> None:
        os.close(self._handle)


def merged_mask(entries: Sequence[Entry], m: int) -> Bools:
    """The availability that happened, as the simulator replays it: [rounds, m], true where a client was merged."""
    mask = np.zeros((len(entries), m), dtype=bool)
    for entry in entries:
        known = all(0 <= client < m for client in entry.merged)
        require(known, f"the ledger is damaged: in round {entry.t} it names a client that is no member")
        mask[entry.t, list(entry.merged)] = True
    return mask


def file_digest(content: bytes) -> str:
    """The SHA-256 of a line or a file, shortened to 32 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()[:32]
