"""The client's half: a client compares the ledger with its own journal, and replays its reports from its own data.

It needs the ledger, the deployment, its data and its trail (``client_trail``), and nothing of the server or of others.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from fedswe.deploy.audit.chain import LedgerInOrder
from fedswe.deploy.audit.findings import Part
from fedswe.deploy.audit.simulation import TOLERANCE, difference
from fedswe.deploy.client import ClientEndpoint
from fedswe.deploy.client_trail import ClientTrail, Record
from fedswe.deploy.deployment import Deployment
from fedswe.deploy.ledger import Contents
from fedswe.deploy.ledger_lines import Change, Entry
from fedswe.deploy.membership import Membership, last_after
from fedswe.deploy.packet import Arrays, arrays_digest
from fedswe.deploy.protocol import NEVER, RunProtocol
from fedswe.errors import FedsweError
from fedswe.tasks.problem import Problem


@dataclass(frozen=True)
class SaidAtLine:
    """What the ledger said about a client up to some line."""

    line: int
    t: int  # rounds
    merged: int  # the client's last merge
    base: str  # digest of the reply to it, or of x^0
    entry: Entry | None  # the round that this line commits


@dataclass
class LedgerOfClient:
    """A ledger, as one client sees it."""

    run: str
    entries: list[Entry]
    lines: dict[str, SaidAtLine] = field(default_factory=dict)  # by the digest of the line
    restores: list[tuple[int, int]] = field(default_factory=list)  # line, rounds that were left


def _ledger_of_client(ordered: LedgerInOrder, client: int, needs_base: bool) -> LedgerOfClient:
    title, heads = ordered.contents.title, ordered.contents.heads
    found, last, contents = LedgerOfClient(title.run, ordered.contents.entries), dict[int, int](), Contents(title)
    for number, (line, head) in enumerate(zip(ordered.lines, heads, strict=True), 1):
        entry = line if isinstance(line, Entry) else None
        if number > 1:
            contents.add(line)
        if entry is not None:
            last |= dict.fromkeys(entry.merged, entry.t)
        elif isinstance(line, Change) and line.action in ("join", "leave"):
            last = last_after(last, line)
        elif isinstance(line, Change) and line.action == "rollback":
            last = Membership.of(contents).last_merges(contents.entries)
        elif isinstance(line, Change) and line.action == "restore":
            found.restores.append((number, line.t))
        merged = last.get(client, NEVER)
        base = title.start if merged == NEVER else contents.entries[merged].reply
        found.lines[head] = SaidAtLine(number, len(contents.entries), merged, base if needs_base else "", entry)
    return found


class ClientCheck:
    def __init__(
        self, ordered: LedgerInOrder, deployment: Deployment, problem: Problem, client: int, state: Path
    ) -> None:
        """`state` is the client's own folder."""
        self._keeps_trail = deployment.trail
        # The base is always attached here, nothing is stored, and a later start may have lowered the number of rounds.
        experiment = deployment.experiment
        experiment = replace(experiment, rounds=max(experiment.rounds, len(ordered.contents.entries)))
        deployment = replace(deployment, experiment=experiment, delivery="lazy", trail=False)
        self._protocol = RunProtocol(deployment, problem)
        self._problem, self._client = problem, client
        self._ledger = _ledger_of_client(ordered, client, self._protocol.needs_base)
        self._trail = ClientTrail(state, client)
        self.part, self.replayed = Part(f"client {client}"), 0

    def run(self) -> Part:
        part, trail = self.part, self._trail
        records = list(trail.records())
        own = [record for record in records if record.run == self._ledger.run]
        merged = [entry for entry in self._ledger.entries if self._client in entry.merged]
        if not own:
            # A client that keeps records has some of every run it took part in.
            part.require(
                not (records and merged and self._keeps_trail),
                f"client {self._client}: the ledger names {len(merged)} of its reports in run {self._ledger.run}, and "
                f"{trail.folder} has records of other runs only",
            )
            what = "is of other runs" if records else "is not there"
            part.skipped.append(f"its {len(merged)} reports: {trail.folder} {what}; deploy.trail = true keeps it")
            return part
        known = self._check_heads(own)
        reports = [record for record in known if record.kind == "report"]
        # Of all records: those of rounds that were replaced show where the client's records begin.
        first = min((record.round for record in own if record.kind == "report"), default=0)
        early, rounded = 0, list[float]()
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / f"client-{self._client}.safetensors"
            endpoint = ClientEndpoint(path, self._protocol, self._client, self._problem)
            for entry in merged:
                if entry.t < first:
                    early += 1
                else:
                    part.attempt(self._check_report, endpoint, entry, reports, rounded)
        part.checked = f"{len(known)} messages of the server agree with the ledger; "
        part.checked += f"{self.replayed} of {len(merged)} merged reports have the bits of a replay from its data"
        if rounded:
            part.notes.append(
                f"{len(rounded)} reports were replayed with other bits, largest difference {max(rounded):.2g}: "
                "another processor or number of threads than in the training"
            )
        if early:
            part.skipped.append(f"{early} reports before round {first}, where the client's records begin")
        return part

    # what the server said ------------------------------------------------------------------------------
    def _check_heads(self, records: Iterable[Record]) -> list[Record]:
        """The records whose heads are lines of this ledger."""
        part, ledger, found, seen = self.part, self._ledger, list[Record](), 0
        lost, unknown = set[int](), list[Record]()
        for record in records:
            where = self._named(record)
            said = ledger.lines.get(record.head)
            if said is None:
                # Rounds that were taken back after the backup are lost like those that were added.
                reached = max(record.round, record.reached)
                if any(line > seen and left <= reached for line, left in ledger.restores):
                    lost.add(record.round)
                else:
                    unknown.append(record)
                continue
            seen = max(seen, said.line)
            found.append(record)
            self._refuse(unknown)  # a line that came later is known: these cannot be of later rounds
            unknown = []
            if record.kind == "report":
                part.require(
                    (said.t, said.merged, said.base) == (record.round, record.merged, record.base),
                    f"{where} does not agree with line {said.line} of the ledger",
                )
            else:
                entry = said.entry
                merged = entry is not None and entry.t == record.round and self._client in entry.merged
                part.require(
                    merged and entry is not None and entry.reply == record.base,
                    f"{where} proves a merge that line {said.line} of the ledger does not have",
                )
        rounds = len(ledger.entries)
        if unknown and all(record.round >= rounds for record in unknown):
            last = max(record.round for record in unknown)
            part.failures.append(
                f"this ledger ends after {rounds} rounds, and the client took part in later ones, up to round {last}: "
                "ask the operator for a newer ledger"
            )
        else:
            self._refuse(unknown)
        if lost:
            part.notes.append(
                f"rounds {', '.join(map(str, sorted(lost)))}, in which this client took part, are not in this ledger: "
                "the operator has restored an older backup"
            )
        return found

    def _refuse(self, records: Iterable[Record]) -> None:
        for record in records:
            where = self._named(record)
            self.part.failures.append(f"{where} names a line that this ledger does not have: it was changed or cut")

    def _named(self, record: Record) -> str:
        return f"client {self._client}: the {'job' if record.kind == 'report' else 'reply'} of round {record.round}"

    # reports -------------------------------------------------------------------------------------------
    def _check_report(
        self, endpoint: ClientEndpoint, entry: Entry, records: list[Record], rounded: list[float]
    ) -> None:
        part, named = self.part, entry.reports.get(self._client, "")
        where = f"client {self._client}, round {entry.t}"
        sent = [record for record in records if record.round == entry.t]
        if not part.require(sent, f"{where}: the ledger has a report of which the client has no record"):
            return
        sent = [record for record in sent if record.report == named]
        if not part.require(sent, f"{where}: the ledger names another report than the client has sent"):
            return
        if not any(record.stored for record in sent):
            part.notes.append(f"{where}: the client could not store what it trained from: its report was not replayed")
            return
        sent = [record for record in sent if record.stored]
        job, report = self._trail.job(sent[-1])
        if not part.require(arrays_digest(report) == named, f"{where}: the report in the client's trail is damaged"):
            return
        inputs = self._digests(job.arrays)
        wanted = {"job": entry.jobs.get(self._client, "")}
        if self._protocol.home == "client":
            wanted = {"down": entry.down, "base": sent[-1].base}
        for name, known in wanted.items():
            part.require(
                inputs[name] == known, f"{where}: the client trained from another {name} than the ledger names"
            )
        # The deployment is that of the ledger; a later version of fedswe may have given it another digest.
        answer = endpoint.handle(replace(job, header={**job.header, "plan": self._protocol.config_digest}))
        if not part.require(
            answer.kind == "report",
            f"{where}: the report cannot be replayed: {answer.header.get('reason', answer.kind)}",
        ):
            return
        if arrays_digest(answer.arrays) == named:
            self.replayed += 1
            return
        far = float(np.max([difference(answer.arrays[name], value) for name, value in report.items()]))
        if part.require(
            far <= TOLERANCE, f"{where}: the replayed report differs by {far:.2g} from the one in the ledger"
        ):
            rounded.append(far)

    def _digests(self, arrays: Arrays) -> dict[str, str]:
        def of(*beginnings: str) -> Arrays:
            return {name: value for name, value in arrays.items() if name.startswith(beginnings)}

        base = of("reply.", "start") if self._protocol.needs_base else {}
        return {
            "job": arrays_digest(of("job.")),
            "down": arrays_digest(of("down.")),
            "base": arrays_digest(base) if base else "",
        }


def check_client(
    ordered: LedgerInOrder, deployment: Deployment, problem: Problem, client: int, state: Path
) -> tuple[Part, int]:
    """What a client finds, and how many of its reports it has replayed with equal bits."""
    part = Part(f"client {client}")
    try:
        check = ClientCheck(ordered, deployment, problem, client, state)
    except FedsweError as error:
        part.failures.append(str(error))
        return part, 0
    return check.run(), check.replayed
