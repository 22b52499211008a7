"""Which clients are members of a run in each round. They join and leave between two rounds, by lines of the ledger.

Clients 0 to m - 1 begin the run. A client that joins gets the next number; the number of one that left is not given
again. An evicted client stays a member, which is absent: it is not asked, and still counts in m.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fedswe.core.algorithm import Algorithm
from fedswe.deploy.ledger import Contents
from fedswe.deploy.ledger_lines import Change, Entry
from fedswe.errors import require


@dataclass(frozen=True)
class Membership:
    m: int  # clients that begin the run
    changes: tuple[Change, ...] = ()  # those that join or leave, in the order of the ledger

    @classmethod
    def of(cls, contents: Contents) -> Membership:
        """Of the run with this ledger."""
        return cls(contents.title.m).after(contents.changes)

    def after(self, changes: Iterable[Change]) -> Membership:
        """With these changes, of which only join and leave count."""
        return Membership(self.m, (*self.changes, *(c for c in changes if c.action in ("join", "leave"))))

    @property
    def numbers(self) -> int:
        """Client numbers that were given, counted from 0."""
        return self.m + sum(change.action == "join" for change in self.changes)

    def members(self, t: int) -> frozenset[int]:
        """The members in round t."""
        found = set(range(self.m))
        for change in self.changes:
            if change.t <= t and change.action == "join":
                found.add(change.client)
            elif change.t <= t:
                found.discard(change.client)
        return frozenset(found)

    def count(self, t: int) -> int:
        """m in round t."""
        return len(self.members(t))

    def begin_at(self, t: int) -> list[Change]:
        """The changes whose first round is t."""
        return [change for change in self.changes if change.t == t]

    def last_merges(self, entries: Sequence[Entry]) -> dict[int, int]:
        """The last merge of each member when the round after these opens."""
        last = dict[int, int]()
        for entry in entries:
            for change in self.begin_at(entry.t):
                last = last_after(last, change)
            last |= dict.fromkeys(entry.merged, entry.t)
        for change in self.begin_at(len(entries)):
            last = last_after(last, change)
        return last


def last_after(last: Mapping[int, int], change: Change) -> dict[int, int]:
    """The last merge of each member after a change.

    A client that joins starts as if it had been merged with the members that were merged last: it has their reply, and
    its echo counts from their round. If no member was merged yet, it starts from x^0 as they do.
    """
    after = {client: t for client, t in last.items() if client != change.client}
    if change.action == "join" and after:
        after[change.client] = max(after.values())
    return after


def require_leaving(algorithm: Algorithm) -> None:
    """Refuse where a client cannot leave."""
    require(
        algorithm.members_change,
        f"no client can leave: the server's state of {type(algorithm).__name__} contains the contributions of its m "
        "clients: use `fedswe deploy evict`, after which the client counts as absent",
    )


def require_joining(algorithm: Algorithm, loads_by_client: bool, simulate_absence: bool) -> None:
    """Refuse where a client cannot join."""
    name = type(algorithm).__name__
    require(
        algorithm.members_change,
        f"no client can join: the server's state of {name} contains the contributions of its m clients: start "
        "a new run",
    )
    require(
        algorithm.home == "client",
        f"no client can join: {name} estimates how often a client takes part from round 0 on: start a new run",
    )
    require(
        loads_by_client,
        "no client can join: the task divides one data set among its clients and would divide it anew: use a task "
        "whose clients load their own samples (CustomTask, or from_data with a function)",
    )
    require(
        not simulate_absence,
        "no client can join: the simulated availability is of a fixed number of clients: start a new run",
    )
