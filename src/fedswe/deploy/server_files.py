"""The server's files besides the ledger, each named after its round and removed when nothing refers to it any more.

The ledger has the digest of each file; a file with another content is refused when it is read.

start.safetensors             x^0
state/T.safetensors           the server's state before round T
outputs/T.safetensors         state of evaluated models that are averages over rounds (ema), after T rounds
versions/T.safetensors        the reply of round T and the model its clients received, for clients last merged there
rows/CLIENT-T.safetensors     the state of a client last merged in round T, where client state is kept at the server
reports/T-CLIENT.safetensors  what a client reported in round T, until the round is committed
trail/T.safetensors           the server model after T rounds, with deploy.trail = true, which also keeps the reports
model.safetensors             the evaluated models at the end, as a run directory has it
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import Any

import safetensors.torch

from fedswe.core.aggregation import Server
from fedswe.core.records import Vector
from fedswe.deploy.durable_files import read_whole
from fedswe.deploy.ledger import file_digest
from fedswe.deploy.ledger_lines import Entry
from fedswe.deploy.membership import Membership
from fedswe.deploy.packet import Arrays, Packet, arrays_digest, decode, decode_fields, encode
from fedswe.errors import FedsweError, require
from fedswe.results.files import sync_folder, write_whole
from fedswe.results.tensors import to_bytes

_SWEPT = ("state", "outputs", "versions", "rows")
FOLDERS = (*_SWEPT, "reports", "trail")
_NAMED_BY_ROUND = ("versions", "rows", "reports")  # the others are named by the number of rounds before them
PATTERNS = {
    folder: re.compile(pattern)
    for folder, pattern in {
        **dict.fromkeys(("state", "outputs", "versions", "trail"), r"(?P<t>\d{1,18})"),
        "rows": r"\d{1,18}-(?P<t>\d{1,18})",
        "reports": r"(?P<t>\d{1,18})-\d{1,18}",
    }.items()
}
RESTORE = "restore the directory from a backup (`fedswe deploy restore`)"


class ServerFiles:
    def __init__(self, directory: Path, entries: Iterable[Entry] = ()) -> None:
        self.directory = directory
        self._digests: dict[str, str] = {}  # of the files in the ledger, by name
        for entry in entries:
            self._digests |= entry.files
        self._written: dict[str, str] = {}  # of the files written since the last commit

    def written(self) -> dict[str, str]:
        """The digests of the files written since the last call, for the ledger."""
        written, self._written = self._written, {}
        return written

    def create(self) -> None:
        """Folders that only their owner can read, whatever the umask."""
        for folder in ("", *FOLDERS):
            (self.directory / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        if not any(path.is_file() for path in self.directory.iterdir()):  # of a new run
            with suppress(OSError):  # of another user, who has given it to this one
                self.directory.chmod(0o700)

    def empty(self) -> bool:
        """Whether there are no files of committed rounds."""
        return not any(any((self.directory / folder).glob("*.safetensors")) for folder in (*_SWEPT, "trail"))

    def check(self, t: int, last: Mapping[int, int]) -> None:
        """Refuse files that round t needs and that are not those in the ledger."""
        for name in sorted(needed(t, last) & self._digests.keys()):
            self._read(name)

    def check_kept_reports(self, entries: Sequence[Entry]) -> None:
        """Refuse models and reports that are kept for an audit and are not those in the ledger."""
        for t in sorted(rounds_with_reports(entries)):
            self._read(f"trail/{t + 1}")
            for client, known in entries[t].reports.items():
                name = f"reports/{t}-{client}"
                require(arrays_digest(self._load(name, "report").arrays) == known, str(self._damaged(name)))

    def sound(self, name: str) -> bool:
        """Whether a file is there and has the digest in the ledger."""
        try:
            self._read(name)
        except FedsweError:
            return False
        return True

    def refuse_later(self, rounds: int) -> None:
        """Refuse files of rounds that the ledger does not have, beyond the one that was under way."""
        for name, t in self.stored():
            require(
                t <= rounds + 1,
                f"{self._path(name)} is of a later round than the {rounds} in the ledger, which was cut: {RESTORE}",
            )

    def stored(self, folders: Iterable[str] = FOLDERS) -> Iterator[tuple[str, int]]:
        """The files of rounds, each with the number of rounds after which it is valid."""
        for folder in folders:
            for path in sorted((self.directory / folder).glob("*.safetensors")):
                if (found := PATTERNS[folder].fullmatch(path.stem)) and path.is_file():
                    yield f"{folder}/{path.stem}", int(found["t"]) + (folder in _NAMED_BY_ROUND)

    # x^0 -----------------------------------------------------------------------------------------------
    def save_start(self, x: Vector) -> None:
        self._save("start", Packet("start", {}, {"start": x}))

    def start(self, like: Vector) -> Vector:
        """The caller compares its digest with that in the first line of the ledger."""
        arrays = self._load("start", "start").arrays
        require(arrays.keys() == {"start"}, str(self._damaged("start")))
        return arrays["start"].to(like.device)

    # the server's state --------------------------------------------------------------------------------
    def save_state(self, t: int, server: Server) -> None:
        named = {f"server.{name}": value for name, value in server.tensors().items()}
        self._save(f"state/{t}", Packet("state", {}, named))

    def state(self, t: int, like: Server) -> Server:
        arrays = self._load(f"state/{t}", "state").arrays
        return like.with_tensors(decode_fields("server", arrays, like.tensors()))

    # the evaluated models ------------------------------------------------------------------------------
    def save_outputs(self, t: int, state: Arrays) -> None:
        # Not a packet: the state of an output may hold counters and matrices.
        self._write(f"outputs/{t}", to_bytes(state))

    def outputs(self, t: int) -> Arrays | None:
        """None if the outputs of that round had no state."""
        name = f"outputs/{t}"
        return safetensors.torch.load(self._read(name)) if name in self._digests else None

    def save_models(self, content: bytes) -> None:
        write_whole(self._path("model"), content)

    def remove_models(self) -> None:
        self._path("model").unlink(missing_ok=True)

    # replies, and the models that clients received -----------------------------------------------------
    def save_version(self, t: int, reply: Any, received: Vector) -> None:
        arrays = encode("reply", reply)
        # If the reply contains the received model, it is written once.
        name = next((name for name, value in arrays.items() if value is received), "received")
        self._save(f"versions/{t}", Packet("version", {"received": name}, {**arrays, name: received}))

    def reply(self, t: int, like: Any) -> Any:
        return decode("reply", self._load(f"versions/{t}", "version").arrays, like)

    def has_version(self, t: int) -> bool:
        """Whether the model of round t is kept: some client may still have it."""
        return f"versions/{t}" in self._digests

    def received(self, t: int) -> Vector:
        packet = self._load(f"versions/{t}", "version")
        return packet.arrays[str(packet.header["received"])]

    # client states kept at the server ------------------------------------------------------------------
    def save_client_state(self, client: int, t: int, state: Any) -> None:
        self._save(f"rows/{client}-{t}", Packet("row", {}, encode("client", state)))

    def client_state(self, client: int, t: int, like: Any) -> Any:
        return decode("client", self._load(f"rows/{client}-{t}", "row").arrays, like)

    # reports -------------------------------------------------------------------------------------------
    def save_report(self, t: int, client: int, arrays: Arrays) -> None:
        """Not synced: if it is lost in a crash, its round was not committed and is repeated."""
        try:
            self._report_path(t, client).write_bytes(Packet("report", {}, dict(arrays)).to_bytes())
        except OSError:
            with suppress(OSError):  # a part of it may have been written
                self.remove_report(t, client)
            raise

    def report(self, t: int, client: int) -> Arrays:
        return self._load(f"reports/{t}-{client}", "report").arrays

    def sync_reports(self, t: int, clients: Iterable[int]) -> None:
        """Make reports durable that are kept after their round."""
        for client in clients:
            with open(self._report_path(t, client), "rb") as file:
                os.fsync(file.fileno())
        sync_folder(self.directory / "reports")

    def remove_report(self, t: int, client: int) -> None:
        self._report_path(t, client).unlink(missing_ok=True)

    def remove_leftovers(self, entries: Sequence[Entry]) -> None:
        """Remove what a process that ended in a round has left: reports that are not kept, and incomplete files."""
        kept = rounds_with_reports(entries)
        for name, t in self.stored(["reports"]):
            if t - 1 not in kept:
                self._path(name).unlink()
        for folder in ("", *_SWEPT, "trail"):
            for incomplete in (self.directory / folder).glob(".*.part"):
                incomplete.unlink()

    def _report_path(self, t: int, client: int) -> Path:
        return self._path(f"reports/{t}-{client}")

    # copies of all server models -----------------------------------------------------------------------
    def save_trail(self, t: int, x: Vector) -> None:
        self._save(f"trail/{t}", Packet("model", {}, {"x": x}))

    def trail(self, t: int) -> Vector | None:
        """The server model after t rounds, if a copy was kept."""
        name = f"trail/{t}"
        return self._load(name, "model").arrays["x"] if name in self._digests else None

    def sweep(self, kept: Mapping[int, Mapping[int, int]]) -> None:
        """Remove files that no kept round needs.

        `kept`: the rounds that can be run next, each with the last merge of every client before it.
        """
        wanted = set[str]()
        for t, last in kept.items():
            wanted |= needed(t, last)
        for name, _ in self.stored(_SWEPT):  # not the kept reports and models, whose number grows with the rounds
            if name not in wanted:
                self._path(name).unlink()
        self._digests = {
            name: known for name, known in self._digests.items() if name.split("/")[0] not in _SWEPT or name in wanted
        }

    def _path(self, name: str) -> Path:
        return self.directory / f"{name}.safetensors"

    def _save(self, name: str, packet: Packet) -> None:
        self._write(name, packet.to_bytes())

    def _write(self, name: str, content: bytes) -> None:
        write_whole(self._path(name), content)
        self._written[name] = self._digests[name] = file_digest(content)

    def _load(self, name: str, kind: str) -> Packet:
        try:
            packet = Packet.from_bytes(self._read(name))
        except FedsweError:
            raise self._damaged(name) from None
        require(packet.kind == kind, str(self._damaged(name)))
        return packet

    def _read(self, name: str) -> bytes:
        try:
            content = read_whole(self._path(name))
        except OSError:
            raise self._damaged(name) from None
        # The arrays of x^0 and of reports have digests of their own in the ledger.
        own = name == "start" or name.startswith("reports/")
        require(own or file_digest(content) == self._digests.get(name), str(self._damaged(name)))
        return content

    def _damaged(self, name: str) -> FedsweError:
        problem = "missing" if not self._path(name).is_file() else "not the file that the ledger names"
        way_out = f"{RESTORE}, or take rounds back with `fedswe deploy rollback`"
        return FedsweError(f"{self._path(name)} is {problem}: {way_out}")


def needed(t: int, last: Mapping[int, int]) -> set[str]:
    """The files that round t needs, if the clients were last merged in these rounds. Not all of them exist."""
    names = {f"state/{t}", f"outputs/{t}"}
    for client, merged in last.items():
        names |= {f"versions/{merged}", f"rows/{client}-{merged}"}
    return names


def rounds_with_reports(entries: Iterable[Entry]) -> set[int]:
    """The rounds whose reports are kept: those that were committed with deploy.trail = true."""
    return {entry.t for entry in entries if f"trail/{entry.t + 1}" in entry.files}


def restorable(entries: Sequence[Entry], membership: Membership, there: Set[str]) -> dict[int, set[str]]:
    """The numbers of rounds after which a run can continue with the files that are there, each with the files."""
    found, known = {0: set[str]()}, {name for entry in entries for name in entry.files}
    for t in range(1, len(entries) + 1):
        if f"state/{t}" in there and (names := needed(t, membership.last_merges(entries[:t])) & known) <= there:
            found[t] = names
    return found
