"""The state of a federation after t rounds: the server, the members, and what the rule keeps of each of them.

All of it is at the server. A client only trains: it is sent a start and returns the end of its training. What `plan`
and `report` need of a client is kept here, so that the rule runs as in the simulator and no client has to be believed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from fedswe.core.aggregation import Server, aggregate, begin
from fedswe.core.algorithm import Algorithm, ClientView, Done, Job, ServerView, empty_report, received
from fedswe.core.records import Vector, add, parts, times
from fedswe.engine.outputs import Output, ServerModel
from fedswe.errors import require

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Member:
    """A client that takes part in the federation."""

    number: int  # reports are added in this order
    joined: int = 0  # rounds before it joined: its clock starts here
    merged: int = 0  # the round, counted from 1, of its last merged report; 0 = never
    received: int = 0  # the version of the model it received last
    holds: int | None = None  # the version of the model x in its record


@dataclass(frozen=True)
class Merged:
    """A round that is merged but not yet part of the federation."""

    server: Server
    clients: dict[str, Any]  # the records of those that reported
    received: Vector | None  # the model they have now; None if nobody reported

    def is_finite(self) -> bool:
        return all(math.isfinite(float(v.sum())) or bool(v.isfinite().all()) for v in self.server.tensors().values())


class Federation:
    """Versions of the model are numbered by the rounds that led to them; version 0 is the start.

    A version is kept as long as a client holds it: in memory, or in the store (`kept`) with all records of clients,
    of which only those that a round needs are in memory.
    """

    def __init__(
        self, rule: Algorithm, start: Vector, members: int = 0, output: Output | None = None, kept: Any = None
    ) -> None:
        self.algorithm, self.t, self.m = rule, 0, max(members, 1)
        self.server = begin(rule, start)
        self.members: dict[str, Member] = {}
        self.removed: set[str] = set()
        self.changed: set[str] = set()  # clients whose records are not in the store
        self.least, self._kept = members, kept
        self._template = rule.client_init(start.new_empty(0))  # its vectors are those of the store
        self._records: dict[str, Any] = {}
        self._models = {0: start}
        self.output = output or ServerModel()
        # Whether the models that absent clients have are needed: for the mean over all clients.
        self.needs_received = not isinstance(self.output, ServerModel) and getattr(self.output, "of", "") != "server"
        self.output_state = self.output.init(self)

    # members -------------------------------------------------------------------------------------------
    def enrol(self, names: Iterable[str]) -> tuple[list[str], list[str]]:
        """Take in those that are new: the new members, and those for which the rule has no place.

        Whoever is there before the first round is a member from the start. A client that appears later joins now: it
        has the model that was sent last, and its clock starts. Where the server's state contains a contribution of each
        of the m clients, m is fixed: a client that appears later is one of them that was absent until now.
        """
        rule, since = self.algorithm, self.t if self.algorithm.members_change else 0
        new = sorted(set(names) - self.members.keys(), key=lambda name: (len(name), name))
        places = max(self.least - len(self.members), 0) if self.t and not rule.members_change else len(new)
        for name in new[:places]:
            record, member = rule.client_init(self.model(since)), Member(len(self.members), since, received=since)
            if since:
                reply = rule.finish(self.server.state, 1, self._at_server())[1]
                record = rule.settle(record, reply, self._view(member))
            self._keep(name, member, record, since)
        self._count()
        return new[:places], new[places:]

    def _count(self) -> None:
        """m: the members, or more where the user said so."""
        gone = self.removed & self.members.keys() if self.algorithm.members_change else ()
        self.m = max(self.least, len(self.members) - len(gone), 1)

    def _keep(self, name: str, member: Member, record: Any, version: int) -> None:
        x, known = parts(record).get("x"), {version, member.holds} - {None}
        holds = next((v for v in known if v is not None and x is self._models.get(v, record)), None)
        self.members[name], self._records[name] = replace(member, holds=holds), record
        self.changed.add(name)

    def _at_server(self, local_lr: float = 1.0) -> ServerView:
        return ServerView(self.t, self.m, local_lr)

    def _view(self, member: Member) -> ClientView:
        t, unknown = (self.server.model.new_full((1,), float(value)) for value in (self.t - member.joined, math.nan))
        return ClientView(t, unknown)

    # a round -------------------------------------------------------------------------------------------
    def job(self, name: str) -> Job:
        """Where a client starts, and what is added to its gradients."""
        down = self.algorithm.downlink(self.server.state, self._at_server())
        return self.algorithm.plan(self.record(name), down, self._view(self.members[name]))

    def seated(self, names: list[str], ties: Mapping[str, float], failed: Collection[str]) -> list[str]:
        """Of the available clients, those that the rule lets report: in a repeated round, others than failed."""
        seats = self.algorithm.seats()
        if not seats or len(names) <= seats:
            return names
        bid = {n: float(self.algorithm.bid(self.record(n), self._view(self.members[n]))) for n in names}
        return sorted(names, key=lambda name: (name in failed, bid[name], ties[name]))[:seats]

    def merge(
        self, ends: Mapping[str, Callable[[], Done]], local_lr: float = 1.0, weights: Mapping[str, float] | None = None
    ) -> Merged:
        """Merge the ends of these clients' training; read one at a time. `weights`: of each, if they differ."""
        rule, at = self.algorithm, self._at_server(local_lr)
        down, records = rule.downlink(self.server.state, at), {}
        total = empty_report(rule, self.server.model)
        for name in sorted(ends, key=lambda name: self.members[name].number):
            record, view = self.record(name), self._view(self.members[name])
            job = rule.plan(record, down, view)
            records[name], report = rule.report(record, down, job, ends[name](), view)
            total = add(total, times(report, weights[name]) if weights else report)
            del report  # vectors are large: not two of them while the next is made
        server, reply = aggregate(rule, self.server, total, sum(weights.values()) if weights else len(ends), at)
        for name, record in records.items():
            records[name] = rule.settle(record, reply, self._view(self.members[name]))
        return Merged(server, records, received(down, reply) if ends else None)

    def advance(self, merged: Merged) -> None:
        """Go on to the next round."""
        version = self.t + (merged.received is merged.server.model)
        self.t, self.server = self.t + 1, merged.server
        self._models[self.t] = self.server.model
        for name, record in merged.clients.items():
            self._keep(name, replace(self.members[name], merged=self.t, received=version), record, self.t)
        self.output_state = self.output.after_round(self.output_state, self)

    def replace_model(self, x: Vector) -> None:
        """Go on from another model than the one that was merged: a wrapper has changed it."""
        self._models[self.t] = x
        self.server = replace(self.server, state=self.algorithm.moved_to(self.server.state, x))
        for name, member in self.members.items():
            if member.holds == self.t:
                self._records[name] = replace(self._records[name], x=x)

    def forget(self) -> None:
        """Leave in memory what is not in the store: without one, the models that clients hold."""
        used = {self.t}
        if self._kept is None:
            used |= {0, *(member.holds or 0 for member in self.members.values())}
            used |= {member.received for member in self.members.values() if self.needs_received}
        else:
            self._records.clear()
        self._models = {version: x for version, x in self._models.items() if version in used}
        self.changed.clear()

    # models --------------------------------------------------------------------------------------------
    def model(self, version: int) -> Vector:
        if version not in self._models:
            self._models[version] = self._kept.model(version)
        return self._models[version]

    def server_model(self) -> Vector:
        return self.server.model

    def client_mean(self) -> Vector:
        """The mean over the members of the model each received last, from the distinct ones."""
        versions = Counter(member.received for name, member in self.members.items() if name not in self.removed)
        if not versions:
            return self.server.model
        mean = torch.zeros_like(self.server.model)
        for version, clients in sorted(versions.items()):
            mean = mean + clients / versions.total() * self.model(version)
        return mean

    def served(self) -> Vector:
        return self.output.model(self.output_state, self)

    # for the store -------------------------------------------------------------------------------------
    def record(self, name: str) -> Any:
        """What the rule keeps of a client."""
        if name not in self._records:
            holds = self.members[name].holds
            shared = {} if holds is None else {"x": self.model(holds)}
            self._records[name] = replace(self._template, **self._kept.client(name), **shared)
        return self._records[name]

    def own_tensors(self, name: str) -> Tensors:
        """The record of a client without the model of the server that it holds."""
        shared = self.members[name].holds is not None
        return {n: v for n, v in parts(self.record(name)).items() if not shared or n != "x"}

    def tensors(self) -> Tensors:
        """All of the server but its model."""
        named = {n: v for n, v in self.server.tensors().items() if n != "x"}
        return named | {f"output.{n}": v for n, v in parts(self.output_state).items()}

    def load(self, t: int) -> None:
        """Continue after t rounds, from the store."""
        self.t, self.members, self.removed = t, self._kept.members(), self._kept.removed()
        self._count()
        tensors, self._models = self._kept.server(t), {t: self._kept.model(t)}
        self.server = self.server.with_tensors({**tensors, "x": self._models[t]})
        known = {n: (f"output.{n}", v) for n, v in parts(self.output_state).items()}
        same = all(name in tensors for name, _ in known.values())
        require(same, "the store is of another version of fedswe: continue it with that one")
        self.output_state = replace(self.output_state, **{n: tensors[name].to(v) for n, (name, v) in known.items()})
