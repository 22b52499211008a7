"""Sums over the committed rounds of a run, from its ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from fedswe.deploy.ledger_lines import Entry


@dataclass
class Totals:
    rounds: int = 0
    seconds: float = 0.0  # from the first job of a round to its commit
    last_seconds: float = 0.0
    write_seconds: float = 0.0
    merged: int = 0
    declined: int = 0
    rejected: Counter[tuple[int, str]] = field(default_factory=Counter)  # (client, reason) -> messages
    traffic: Counter[str] = field(default_factory=Counter)  # kind of message -> bytes

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Totals:
        totals = cls()
        for entry in entries:
            totals.add(entry)
        return totals

    def add(self, entry: Entry) -> None:
        self.rounds += 1
        self.seconds += entry.took
        self.last_seconds = entry.took
        self.write_seconds += entry.seconds
        self.merged += len(entry.merged)
        self.declined += entry.declined
        self.traffic.update(entry.traffic)
        for client, reasons in entry.rejected.items():
            self.rejected.update({(client, reason): times for reason, times in reasons.items()})

    def by_reason(self) -> Counter[str]:
        found = Counter[str]()
        for (_, reason), times in self.rejected.items():
            found[reason] += times
        return found
