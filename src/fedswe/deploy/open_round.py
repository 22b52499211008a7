"""The open round: which clients were asked, what they answered, and which messages are rejected. Nothing is durable.

A message is rejected for a reason of one or two words, which the ledger counts per client. The client can still
send a valid report in the same round.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from dataclasses import replace
from typing import Any

import torch

from fedswe.core.algorithm import Done
from fedswe.core.records import Model, parts
from fedswe.deploy.client_table import ClientTable
from fedswe.deploy.packet import Packet, decode
from fedswe.deploy.protocol import RunProtocol
from fedswe.errors import FedsweError, require

log = logging.getLogger("fedswe.deploy")

_BASE_REQUESTS = 3  # times a client may ask for its base in one round
_KINDS = ("report", "decline", "need_state", "ack")
_MOVES_NEEDED = 10  # merged reports before max_norm = "auto" applies
_AUTO_FACTOR = 100.0  # multiple of the largest merged distance that max_norm = "auto" allows


class Rejection(FedsweError):
    """A message that is not used, with the reason that the ledger counts."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def _demand(condition: object, reason: str, message: str) -> None:
    if not condition:
        raise Rejection(reason, message)


class OpenRound:
    def __init__(
        self,
        protocol: RunProtocol,
        clients: ClientTable,
        run: str,
        epoch: str,
        t: int,
        down: Any,
    ) -> None:
        self._protocol, self._clients = protocol, clients
        self._run, self._epoch, self.t, self.down = run, epoch, t, down
        self.moves, self.farthest = 0, 0.0
        self.available: set[int] = set()  # connected, and not absent by the simulated availability
        self.asked: set[int] = set()
        self.reports: dict[int, Any] = {}
        self.declined: set[int] = set()
        self.rejected: dict[int, Counter[str]] = {}
        self.traffic: Counter[str] = Counter()
        self._base_requests: Counter[int] = Counter()

    def count_sent(self, packet: Packet) -> Packet:
        self.traffic[f"down {packet.kind}"] += packet.size
        return packet

    def receive(self, client: int, packet: Packet | bytes) -> bool:
        """Accept a message, or reject, count and log it; true if the client's base must be sent to it."""
        known = client if 0 <= client < self._protocol.m else -1
        kind, size = "unread", len(packet) if isinstance(packet, bytes) else 0
        try:
            packet = _parsed(packet)
            size = packet.size
            _demand(packet.kind in _KINDS, "malformed", "its kind is unknown")
            kind = packet.kind
            _demand(known == client, "client", f"there is no client {client}")
            return self._accept(client, packet)
        except Rejection as rejection:
            self.rejected.setdefault(known, Counter())[rejection.reason] += 1
            log.warning("round %d: client %d rejected (%s): %s", self.t, client, rejection.reason, rejection)
            return False
        finally:
            self.traffic[f"up {kind}"] += size

    def _accept(self, client: int, packet: Packet) -> bool:
        header = packet.header
        _demand(header.get("client") == client, "client", f"it says it is client {header.get('client')!a:.20}")
        _demand(header.get("run") == self._run, "run", "it belongs to another run")
        if isinstance(stored := header.get("holds"), str):
            self._clients.stored[client] = stored[:64]
        if packet.kind == "ack":
            return False  # an ack only says what the client has stored
        _demand(header.get("epoch") == self._epoch, "epoch", "it answers the server before its restart")
        _demand(header.get("round") == self.t, "round", f"it is of round {header.get('round')!a:.20}")
        _demand(client in self.asked, "uninvited", "it was not asked")
        if packet.kind == "need_state":
            _demand(self._protocol.needs_base, "malformed", "the algorithm needs no base")
            self._base_requests[client] += 1
            _demand(self._base_requests[client] <= _BASE_REQUESTS, "repeated", "it asks for its base too often")
            return True
        if packet.kind == "decline":
            self.declined.add(client)
            if header.get("reason") != "absent":
                log.warning("round %d: client %d declines: %a", self.t, client, str(header.get("reason"))[:200])
        else:
            _demand(client not in self.reports, "duplicate", "it has already reported")
            named = (header.get("merged"), header.get("base"))
            expected = (self._clients.merged(client), self._clients.base(client))
            _demand(named == expected, "base", "it did not start from the reply to its last merged report")
            self.reports[client] = self._checked_report(client, packet)
        return False

    def _checked_report(self, client: int, packet: Packet) -> Any:
        protocol = self._protocol
        name, like = ("trained", Model(protocol.start)) if protocol.home == "server" else ("report", protocol.no_report)
        try:
            report = decode(name, packet.arrays, like)
            require(len(packet.arrays) == len(parts(report)), "there are arrays that do not belong to a report")
        except FedsweError as error:
            raise Rejection("schema", str(error)) from None
        for field, value in parts(report).items():
            _demand(torch.isfinite(value).all(), "not finite", f"{field} holds NaN or infinity")
        if protocol.deployment.max_norm != 0:
            far, limit = self.distance_moved(client, report), self._largest_move()
            _demand(far <= limit, "norm", f"it moved by {far:.3g}, the limit is {limit:.3g}")
            self.moves, self.farthest = self.moves + 1, max(self.farthest, far)
        return report

    # how far a client moved ----------------------------------------------------------------------------
    def _largest_move(self) -> float:
        """The limit by deploy.max_norm."""
        max_norm = self._protocol.deployment.max_norm
        if isinstance(max_norm, str):
            known = self.moves >= _MOVES_NEEDED and self.farthest > 0
            return _AUTO_FACTOR * self.farthest if known else math.inf
        return max_norm or math.inf

    def distance_moved(self, client: int, report: Any) -> float:
        """The L2 distance that the client moved in local training in one round, derived from its report."""
        protocol, algorithm, state = self._protocol, self._protocol.algorithm, self._clients.state(client)
        at = protocol.at_client(client, self.t)
        job = algorithm.plan(state, self.down, at)
        if protocol.home == "server":
            return _distance(report, Model(job.start))
        job = replace(job, start=job.start.double())

        def reported(end: torch.Tensor) -> Any:
            done = Done(end, protocol.local.steps, protocol.local.lr_at(self.t))
            return algorithm.report(state, self.down, job, done, at)[1]

        # Reports are affine in the end of the training: the reports of no move and of a known one give the scale.
        unmoved = reported(job.start)
        step = 1 + float(job.start.abs().max())  # large enough not to vanish in the rounding
        scale = _distance(reported(job.start + step), unmoved) / (step * math.sqrt(job.start.numel()))
        rounds = self.t - self._clients.merged(client) if algorithm.trains_while_absent else 1
        return _distance(report, unmoved) / scale / rounds


def _distance(a: Any, b: Any) -> float:
    """L2 over all fields, in float64 so that squares of large numbers do not overflow."""
    others = parts(b)
    return math.hypot(*(float((v.double() - others[n].double()).norm()) for n, v in parts(a).items()))


def _parsed(packet: Packet | bytes) -> Packet:
    if isinstance(packet, Packet):
        return packet
    try:
        return Packet.from_bytes(packet)
    except FedsweError as error:
        raise Rejection("malformed", str(error)) from None
