"""The open round: who was asked, what has come in, and which messages are turned away. Nothing here is durable."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

from fedswe.core.records import Model, parts
from fedswe.deploy.client_table import ClientTable
from fedswe.deploy.codec import decode
from fedswe.deploy.packet import Packet
from fedswe.deploy.protocol import RunProtocol
from fedswe.deploy.validation import Rejection, bound, demand, demand_finite, distance, moved
from fedswe.errors import FedsweError, require

log = logging.getLogger("fedswe.deploy")

_REPAIRS = 3  # times a client may ask for its base in one round
_KINDS = ("report", "decline", "need_state", "ack")


class OpenRound:
    def __init__(self, protocol: RunProtocol, clients: ClientTable, run: str, epoch: str, t: int, down: Any) -> None:
        self._protocol, self._clients = protocol, clients
        self._run, self._epoch, self.t, self.down = run, epoch, t, down
        self.moves, self.farthest = 0, 0.0  # of all rounds so far, and of the reports below
        self.asked: set[int] = set()
        self.reports: dict[int, Any] = {}
        self.declined: set[int] = set()
        self.rejected: dict[int, Counter[str]] = {}
        self.traffic: Counter[str] = Counter()
        self._repairs: Counter[int] = Counter()

    def sent(self, packet: Packet) -> Packet:
        self.traffic[f"down {packet.kind}"] += packet.size
        return packet

    def take(self, client: int, packet: Packet | bytes) -> bool:
        """Take a message, or reject, count and log it; true when the client needs its base to be sent."""
        known = client if 0 <= client < self._protocol.m else -1
        kind, size = "unread", len(packet) if isinstance(packet, bytes) else 0
        try:
            packet = _readable(packet)
            size = packet.size
            demand(packet.kind in _KINDS, "malformed", "its kind is unknown")
            kind = packet.kind
            demand(known == client, "client", f"there is no client {client}")
            return self._taken(client, packet)
        except Rejection as rejection:
            self.rejected.setdefault(known, Counter())[rejection.reason] += 1
            log.warning("round %d: client %d rejected (%s): %s", self.t, client, rejection.reason, rejection)
            return False
        finally:
            self.traffic[f"up {kind}"] += size

    def _taken(self, client: int, packet: Packet) -> bool:
        header = packet.header
        demand(header.get("client") == client, "client", f"it calls itself client {header.get('client')!a:.20}")
        demand(header.get("run") == self._run, "run", "it belongs to another run")
        if isinstance(holds := header.get("holds"), str):
            self._clients.holds[client] = holds[:64]
        if packet.kind == "ack":
            return False  # all it says is what the client holds
        demand(header.get("epoch") == self._epoch, "epoch", "it answers a server before its restart")
        demand(header.get("round") == self.t, "round", f"it is of round {header.get('round')!a:.20}")
        demand(client in self.asked, "uninvited", "it was not asked")
        if packet.kind == "need_state":
            demand(self._protocol.rebuilds, "malformed", "there is no state to ask for")
            self._repairs[client] += 1
            demand(self._repairs[client] <= _REPAIRS, "repeated", "it keeps asking for its base")
            return True
        if packet.kind == "decline":
            self.declined.add(client)
            if header.get("reason") != "absent":
                log.warning("round %d: client %d declines: %a", self.t, client, str(header.get("reason"))[:200])
        else:
            demand(client not in self.reports, "duplicate", "it has reported already")
            named = (header.get("merged"), header.get("base"))
            ours = (self._clients.merged(client), self._clients.base(client))
            demand(named == ours, "base", "it did not start from where it was last merged")
            self.reports[client] = self._report(client, packet)
        return False

    def _report(self, client: int, packet: Packet) -> Any:
        protocol = self._protocol
        name, like = ("trained", Model(protocol.start)) if protocol.home == "server" else ("report", protocol.nobody)
        try:
            report = decode(name, packet.arrays, like)
            require(len(packet.arrays) == len(parts(report)), "there are arrays that do not belong to a report")
        except FedsweError as error:
            raise Rejection("schema", str(error)) from None
        demand_finite(report)
        max_norm = protocol.deployment.max_norm
        if max_norm != 0:
            far = self._moved(client, report)
            allowed = bound(max_norm, self.moves, self.farthest)
            demand(far <= allowed, "norm", f"it moved by {far:.3g}, at most {allowed:.3g} is plausible")
            self.moves, self.farthest = self.moves + 1, max(self.farthest, far)
        return report

    def _moved(self, client: int, report: Any) -> float:
        protocol, state = self._protocol, self._clients.state(client)
        if protocol.home == "server":
            job = protocol.algorithm.plan(state, self.down, protocol.at_client(client, self.t))
            return distance(report, Model(job.start))
        far = moved(protocol, state, self.down, report, client, self.t)
        rounds = self.t - self._clients.merged(client) if protocol.algorithm.trains_while_absent else 1
        return far / rounds


def _readable(packet: Packet | bytes) -> Packet:
    if isinstance(packet, Packet):
        return packet
    try:
        return Packet.from_bytes(packet)
    except FedsweError as error:
        raise Rejection("malformed", str(error)) from None
