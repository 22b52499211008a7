"""What a client keeps of its own part in a run, with deploy.trail = true. With it, it can check a ledger later.

trail-CLIENT/journal.jsonl            a line for each report sent and each reply received, with the ledger's head then
trail-CLIENT/T-DIGEST.safetensors     what it trained from in round T, and its report, whose digest begins with DIGEST

A client that cannot write takes part all the same. Its journal says later which reports it could not store. If the
client ends before it can write again, these records are lost, and its half of the audit fails in these rounds.
"""

from __future__ import annotations

import json
import os
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from fedswe.deploy import durable_files
from fedswe.deploy.log_file import log
from fedswe.deploy.packet import Arrays, Header, Packet, arrays_digest
from fedswe.errors import FedsweError
from fedswe.results.files import write_whole

JOURNAL = "journal.jsonl"
_WAITING = 10_000  # records that wait until the disk can be written again
Kind = Literal["report", "delivery"]


@dataclass(frozen=True)
class Record:
    """A line of the journal: what the server said with a job or a delivery, and what the client answered to a job."""

    kind: Kind
    run: str
    round: int
    head: str  # digest of the ledger's last line when the server sent the message
    base: str  # digest of the base of the job, or of the delivered reply
    epoch: str = ""
    merged: int = -1  # the round of the client's last merge, as the server said in the job
    report: str = ""  # digest of the report's arrays
    reached: int = -1  # the most rounds that the run ever had, which is more than `round` if rounds were taken back
    stored: bool = True  # whether the client could store the report, and what it trained from

    def sound(self) -> bool:
        texts = (self.kind, self.run, self.head, self.base, self.epoch, self.report)
        numbers = (self.round, self.merged, self.reached)
        return (
            all(type(value) is str for value in texts)
            and all(type(value) is int and abs(value) < 1 << 63 for value in numbers)
            and type(self.stored) is bool
            and self.kind in get_args(Kind)
            and (self.kind == "delivery" or re.fullmatch("[0-9a-f]{32}", self.report) is not None)
        )


class ClientTrail:
    def __init__(self, state: Path, client: int) -> None:
        """The trail of a client that keeps its state in the folder `state`."""
        self.folder, self._client = state / f"trail-{client}", client
        self._waiting = deque[Record](maxlen=_WAITING)

    # writing -------------------------------------------------------------------------------------------
    def add_report(self, header: Header, inputs: Arrays, report: Arrays) -> None:
        """A report is recorded before it is sent."""
        record = Record(
            "report",
            *(str(header["run"]), int(header["round"]), str(header.get("head", "")), str(header["base"])),
            *(str(header["epoch"]), int(header["merged"]), arrays_digest(report), _reached(header)),
        )
        path = self._path(record)
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            if not path.exists():
                write_whole(path, Packet("job", header, {**inputs, **_renamed(report)}).to_bytes())
        except (OSError, FedsweError) as error:
            log.warning("client %d cannot store its report of round %d: %s", self._client, record.round, error)
            record = replace(record, stored=False)
        self._add(record)

    def add_delivery(self, header: Header) -> None:
        names = str(header["run"]), int(header["round"]), str(header.get("head", "")), str(header["base"])
        self._add(Record("delivery", *names, reached=_reached(header)))

    def _add(self, record: Record) -> None:
        """Append a record. One that cannot be written is kept in memory, and written before the next one."""
        self._waiting.append(record)
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            while self._waiting:
                self._append(self._waiting[0])
                self._waiting.popleft()
        except (OSError, FedsweError) as error:
            what = "its report" if record.kind == "report" else "the reply"
            log.warning("client %d cannot record %s of round %d: %s", self._client, what, record.round, error)

    def _append(self, record: Record) -> None:
        path = self.folder / JOURNAL
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            size = os.fstat(handle).st_size
            torn = size and os.pread(handle, 1, size - 1) != b"\n"  # by a crash: it stays, as a line of its own
            line = ("\n" if torn else "") + json.dumps(asdict(record)) + "\n"
            durable_files.append(path, handle, size, line.encode())
        finally:
            os.close(handle)

    # reading -------------------------------------------------------------------------------------------
    def records(self) -> Iterator[Record]:
        """The journal, in order; lines torn by a crash or damaged are left out."""
        try:
            lines = (self.folder / JOURNAL).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return
        for line in lines:
            try:
                record = Record(**json.loads(line))
            except (ValueError, TypeError, RecursionError):
                continue
            if record.sound():
                yield record

    def job(self, record: Record) -> tuple[Packet, Arrays]:
        """The job that a report answered, with all it was trained from; and the report."""
        packet = durable_files.load(self._path(record), "job")
        if packet is None:
            raise FedsweError(f"{self._path(record)} is missing or damaged")
        report = {name.removeprefix(_REPORT): v for name, v in packet.arrays.items() if name.startswith(_REPORT)}
        inputs = {name: v for name, v in packet.arrays.items() if not name.startswith(_REPORT)}
        return Packet("job", packet.header, inputs), report

    def _path(self, record: Record) -> Path:
        return self.folder / f"{record.round}-{record.report[:8]}.safetensors"


def _reached(header: Header) -> int:
    """-1 if the server did not say it, or nonsense: that must not make the record unreadable."""
    found = header.get("reached")
    return found if isinstance(found, int) and 0 <= found < 1 << 62 else -1


_REPORT = "sent."


def _renamed(report: Arrays) -> Arrays:
    return {f"{_REPORT}{name}": value for name, value in report.items()}
