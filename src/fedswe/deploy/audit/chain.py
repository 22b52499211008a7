"""The ledger itself: the chain of its lines, their seals, and whether its rounds follow from each other."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Set
from dataclasses import dataclass, field
from pathlib import Path

from fedswe.deploy import ledger
from fedswe.deploy.audit.findings import Part
from fedswe.deploy.ledger import Contents
from fedswe.deploy.ledger_key import LedgerKey
from fedswe.deploy.ledger_lines import Change, Entry, Evaluation, Line, Start
from fedswe.deploy.membership import last_after
from fedswe.deploy.protocol import NEVER, RunProtocol
from fedswe.results.history import Row

_DIGEST = re.compile(r"[0-9a-f]{32}")


@dataclass
class LedgerInOrder:
    """A ledger, and what depends on the order of its lines."""

    contents: Contents
    lines: list[Line] = field(default_factory=list)
    scores: dict[int, str] = field(default_factory=dict)  # evaluated round -> digest of what was evaluated then
    misplaced: list[str] = field(default_factory=list)

    def rows_before_the_last_line(self) -> list[Row]:
        contents = Contents(self.contents.title)
        for line in self.lines[1:-1]:
            contents.add(line)
        return contents.rows

    @property
    def cut_short(self) -> bool:
        """Whether the last line is one after which files are written or removed: a process may have ended there."""
        last = self.lines[-1]
        return isinstance(last, Entry | Start) or (isinstance(last, Change) and last.action in ("rollback", "restore"))


def read(path: Path) -> LedgerInOrder:
    reader, found, scores = ledger.Reader(path), None, ""
    for line, contents in reader.lines():
        found = found or LedgerInOrder(contents)
        found.lines.append(line)
        rounds, where = len(contents.entries), f"{path.name} line {len(found.lines)}"
        match line:
            case Start():
                scores = line.scores
                if line.t != rounds:
                    found.misplaced.append(f"{where}: a start at round {line.t} stands after {rounds} rounds")
            case Evaluation():
                found.scores[rounds] = scores
                if line.row["round"] != rounds:
                    found.misplaced.append(
                        f"{where}: an evaluation after {line.row['round']} rounds stands after {rounds} rounds"
                    )
            case Change() if line.t != rounds:
                found.misplaced.append(f"{where}: a line {line.action} of round {line.t} stands after {rounds} rounds")
    reader.read()  # refuses an empty file
    assert found is not None
    return found


def check_seals(contents: Contents, folder: Path, own: bool) -> Part:
    """`own`: the run is of this machine."""
    part, lines, key = Part("seals"), len(contents.heads), LedgerKey.find()
    if not own:
        part.skipped.append("the seals: the run is of another machine; its operator can check them there")
    elif not key.secret:
        part.skipped.append(
            f"the seals: there is no key at {key.path()}; run this at the server, as the user who runs it"
        )
    else:
        part.checked = f"{lines - len(contents.unsealed) - contents.brought} of {lines} lines have this machine's seal"
        if contents.brought:
            part.notes.append(f"lines 1 to {contents.brought} were restored from a backup of another machine")
        if contents.unsealed:
            first, more = contents.unsealed[0], len(contents.unsealed) - 1
            part.failures.append(
                f"{folder / ledger.FILE} line {first}{f' and {more} more' if more else ''}: not sealed with the key in "
                f"{key.path()}; if the run is of another machine, say so with --other-machine"
            )
    return part


def check_rounds(contents: Contents, protocol: RunProtocol) -> Part:
    """Every round is complete, and every client was merged from the round of its last merge (Proposition 1)."""
    part, last, evicted = Part("rounds"), dict[int, int](), dict[int, int]()
    membership, changes = protocol.membership, deque(contents.changes)
    for entry in contents.entries:
        while changes and changes[0].t <= entry.t:
            evicted = _evicted_after(evicted, changes.popleft())
        for client in sorted(entry.merged.keys() & evicted.keys()):
            part.failures.append(
                f"round {entry.t}: client {client} was merged, but is evicted from round {evicted[client]} on"
            )
        for change in membership.begin_at(entry.t):
            last = last_after(last, change)
        members = membership.members(entry.t)
        for client, since in entry.merged.items():
            known = last.get(client, NEVER)
            part.require(
                since == known,
                f"round {entry.t}: client {client} was merged from {_round(since)}, its last merge was {_round(known)}",
            )
            last[client] = entry.t
        for problem in _problems(entry, protocol, membership.numbers, members):
            part.failures.append(f"round {entry.t}: {problem}")
    reports = sum(len(entry.merged) for entry in contents.entries)
    part.checked = f"{len(contents.entries)} rounds, {reports} reports merged, each counted once"
    return part


def _evicted_after(evicted: dict[int, int], change: Change) -> dict[int, int]:
    """Client -> the first round in which it was not to be asked."""
    others = {client: t for client, t in evicted.items() if client != change.client}
    if change.action == "evict":
        return {**others, change.client: evicted.get(change.client, change.t)}
    return others if change.action in ("admit", "leave") else evicted


def _problems(entry: Entry, protocol: RunProtocol, numbers: int, members: frozenset[int]) -> list[str]:
    merged, clients = entry.merged.keys(), {*entry.merged, *entry.rejected} - {-1}
    at_server, m = protocol.home == "server", len(members)
    wanted = {f"state/{entry.t + 1}"} | ({f"versions/{entry.t}"} if merged else set())
    wanted |= {f"rows/{client}-{entry.t}" for client in merged} if at_server else set()
    named = entry.files.keys() - {f"outputs/{entry.t + 1}", f"trail/{entry.t + 1}"}
    digests = [entry.model, entry.down, *entry.jobs.values(), *entry.reports.values(), *entry.files.values()]
    checks = {
        f"there are only {numbers} clients": all(0 <= client < numbers for client in clients),
        f"clients {_listed(merged - members)} were merged and are no members": merged <= members,
        "its reports are not those of the merged clients": entry.reports.keys() == merged,
        "its jobs are not those of the merged clients": entry.jobs.keys() == (merged if at_server else set()),
        "it has moves of clients that were not merged": entry.moves.keys() <= merged,
        f"it names the files {_listed(named)}, not {_listed(wanted)}": named == wanted,
        "a digest is not one": all(isinstance(d, str) and _DIGEST.fullmatch(d) for d in digests),
        "its reply has no digest": bool(_DIGEST.fullmatch(entry.reply)) == bool(protocol.needs_base and merged),
        "its counts are impossible": len(merged) <= entry.available <= m and 0 <= entry.declined <= m,
        "its times, moves or bytes are impossible": all(
            isinstance(v, int | float) and math.isfinite(v) and v >= 0
            for v in (entry.seconds, *entry.moves.values(), *entry.traffic.values())
        ),
    }
    return [problem for problem, holds in checks.items() if not holds]


def _listed(names: Set[str] | Set[int]) -> str:
    shown = [str(name) for name in sorted(names)]
    return ", ".join(shown[:4]) + ("..." if len(shown) > 4 else "") if shown else "none"


def _round(t: int) -> str:
    return "no round" if t == NEVER else f"round {t}"
