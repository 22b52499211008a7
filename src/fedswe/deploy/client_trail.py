"""What a client keeps of its own part in a run, with deploy.trail = true. With it, it can check a ledger later.

trail-CLIENT/journal.jsonl            a line for each report sent and each reply received, with the ledger's head then
trail-CLIENT/T-DIGEST.safetensors     what it trained from in round T, and its report, whose digest begins with DIGEST

A client that cannot write takes part all the same.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

from fedswe.deploy import durable_files
from fedswe.deploy.log_file import log
from fedswe.deploy.packet import Arrays, Header, Packet, digest
from fedswe.errors import FedsweError

JOURNAL = "journal.jsonl"
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

    def sound(self) -> bool:
        texts, numbers = (self.kind, self.run, self.head, self.base, self.epoch, self.report), (self.round, self.merged)
        return (
            all(type(value) is str for value in texts)
            and all(type(value) is int and abs(value) < 1 << 63 for value in numbers)
            and self.kind in get_args(Kind)
            and (self.kind == "delivery" or re.fullmatch("[0-9a-f]{32}", self.report) is not None)
        )


class ClientTrail:
    def __init__(self, state: Path, client: int) -> None:
        """The trail of a client that keeps its state in the folder `state`."""
        self.folder, self._client = state / f"trail-{client}", client

    # writing -------------------------------------------------------------------------------------------
    def add_report(self, header: Header, inputs: Arrays, report: Arrays) -> None:
        """A report is recorded before it is sent."""
        record = Record(
            "report",
            *(str(header["run"]), int(header["round"]), str(header.get("head", "")), str(header["base"])),
            *(str(header["epoch"]), int(header["merged"]), digest(report)),
        )
        path = self._path(record)
        try:
            self.folder.mkdir(exist_ok=True)
            if not path.exists():
                durable_files.save(path, Packet("job", header, {**inputs, **_renamed(report)}))
            self._append(record)
        except (OSError, FedsweError) as error:
            log.warning("client %d cannot record its report of round %d: %s", self._client, record.round, error)

    def add_delivery(self, header: Header) -> None:
        record = Record(
            "delivery",
            *(str(header["run"]), int(header["round"]), str(header.get("head", "")), str(header["base"])),
        )
        try:
            self.folder.mkdir(exist_ok=True)
            self._append(record)
        except (OSError, FedsweError) as error:
            log.warning("client %d cannot record the reply of round %d: %s", self._client, record.round, error)

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


_REPORT = "sent."


def _renamed(report: Arrays) -> Arrays:
    return {f"{_REPORT}{name}": value for name, value in report.items()}
