"""The open round: which clients were asked, what they answered, and which messages are rejected.

A message is rejected for a reason of one or two words, which the ledger counts per client. The client can still
send a valid report in the same round. Any exception while a message is handled rejects it, but one of the
server's disk is not counted against the client. An accepted report is
written to a file until the round closes; the file is not synced, because a round that was not committed is repeated.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from fedswe.core.records import Model, Vector, parts
from fedswe.deploy.client_table import ClientTable
from fedswe.deploy.log_file import fields, log
from fedswe.deploy.move import Moves, is_finite
from fedswe.deploy.move_limit import MoveLimit
from fedswe.deploy.packet import Packet, SchemaError, arrays_digest, decode
from fedswe.deploy.protocol import RunProtocol
from fedswe.deploy.server_files import ServerFiles
from fedswe.errors import FedsweError, first_line, require

_BASE_REQUESTS = 3  # times a client may ask for its base in one round
_LOGGED = 5  # messages about one client that are logged in one round; the ledger counts all of them


@dataclass(frozen=True)
class Report:
    """An accepted report, whose arrays are in a file."""

    move: float  # NaN without a limit
    digest: str  # of the arrays


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
        files: ServerFiles,
        limit: MoveLimit,
        run: str,
        epoch: str,
        t: int,
        down: Any,
        model: Vector,
    ) -> None:
        self._protocol, self._clients, self._files, self._limit = protocol, clients, files, limit
        self.run, self.epoch, self.t, self.down = run, epoch, t, down
        self._moves, self._bound = Moves(protocol, clients, t, down), limit.bound(model)
        self.available: set[int] = set()  # connected, and not absent by the simulated availability
        self.asked: set[int] = set()
        self.jobs: dict[int, str] = {}  # digests of the jobs that the server has planned
        self._starts: dict[int, Vector] = {}  # where clients start, if that is a vector of `down`
        self.reports: dict[int, Report] = {}
        self.declined: set[int] = set()
        self.rejected: dict[int, Counter[str]] = {}
        self.traffic: Counter[str] = Counter()
        self._base_requests: Counter[int] = Counter()
        self._logged: Counter[int] = Counter()

    def count_sent(self, packet: Packet) -> Packet:
        self.traffic[f"down {packet.kind}"] += packet.size
        return packet

    def note_job(self, client: int, start: Vector, digest: str) -> None:
        """Remember the job of a client whose state is kept here."""
        self.jobs[client] = digest
        if any(start is vector for vector in parts(self.down).values()):  # another vector is computed when needed
            self._starts[client] = start

    def receive(self, client: int, packet: Packet | bytes) -> bool:
        """Accept a message, or reject, count and log it; true if the client's base must be sent to it."""
        kind, size = "unread", len(packet) if isinstance(packet, bytes) else 0
        try:
            packet = self._parsed(packet)
            size = packet.size
            _demand(packet.kind in self._protocol.to_server, "malformed", "its kind is unknown")
            kind = packet.kind
            _demand(self._known(client) == client, "client", f"there is no client {client}")
            return self._accept(client, packet)
        except Rejection as rejection:
            self._reject(client, rejection)
        except OSError as error:  # of this machine's disk: not the client's fault
            problem = f"sent a {kind} that this server cannot store: {error.strerror}; free space on its disk"
            self._warn(client, "not stored", problem)
        except Exception as error:  # whatever a client sends, and whatever it sets off, must not stop the server
            self._reject(client, Rejection("error", first_line(error)))
        finally:
            self.traffic[f"up {kind}"] += size
        return False

    def refuse(self, client: int, reason: str, message: str) -> None:
        """Reject a report that was accepted before."""
        del self.reports[client]
        self._files.remove_report(self.t, client)
        self._reject(client, Rejection(reason, message))

    @property
    def moves(self) -> dict[int, float]:
        """How far the clients with an accepted report moved; empty without a limit."""
        return {} if self._limit.off else {client: report.move for client, report in self.reports.items()}

    def refuse_far_moves(self) -> None:
        """Reject the reports that moved too far, compared with the moves of other clients."""
        moves = self.moves
        for client, limit in self._limit.exceeded(moves, self._bound).items():
            self.refuse(client, "norm", f"it moved by {moves[client]:.3g}, the limit is {limit:.3g}")

    def farthest(self) -> int:
        """The client whose accepted report moved farthest."""
        moves = self.moves or {client: self._moves.of(client, self.report(client)) for client in self.reports}
        return max(moves, key=lambda client: (moves[client], client))

    def report(self, client: int) -> Any:
        """An accepted report, read from its file."""
        name, like = self._form()
        return decode(name, self._files.report(self.t, client), like)

    def _known(self, client: int) -> int:
        return client if 0 <= client < self._protocol.m else -1

    def _reject(self, client: int, rejection: Rejection) -> None:
        known = self._known(client)
        self.rejected.setdefault(known, Counter())[rejection.reason] += 1
        self._warn(client, "rejected", f"rejected ({rejection.reason}): {rejection}")

    def _warn(self, client: int, event: str, what: str) -> None:
        known = self._known(client)
        self._logged[known] += 1
        if self._logged[known] <= _LOGGED:
            more = "; more of this client is only counted" if self._logged[known] == _LOGGED else ""
            message = ("round %d: client %d %s%s", self.t, client, what, more)
            log.warning(*message, extra=fields(event, self.t, client))

    def _parsed(self, packet: Packet | bytes) -> Packet:
        if isinstance(packet, Packet):
            return packet
        try:
            return Packet.from_bytes(packet, self._protocol.to_server)
        except SchemaError as error:
            raise Rejection("schema", str(error)) from None
        except FedsweError as error:
            raise Rejection("malformed", str(error)) from None

    def _accept(self, client: int, packet: Packet) -> bool:
        header = packet.header
        _demand(header.get("client") == client, "client", f"it says it is client {header.get('client')!a:.20}")
        _demand(header.get("run") == self.run, "run", "it belongs to another run")
        if isinstance(stored := header.get("holds"), str):
            self._clients.stored[client] = stored[:64]
        if packet.kind == "ack":
            return False  # an ack only says what the client has stored
        _demand(header.get("epoch") == self.epoch, "epoch", "it answers the server before its restart")
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
                self._warn(client, "declined", f"declines: {str(header.get('reason'))[:200]}")
        else:
            _demand(client not in self.reports, "duplicate", "it has already reported")
            named = (header.get("merged"), header.get("base"))
            expected = (self._clients.merged(client), self._clients.base(client))
            _demand(named == expected, "base", "it did not start from the reply to its last merged report")
            move = self._checked_move(client, packet)
            self._files.save_report(self.t, client, packet.arrays)
            self.reports[client] = Report(
                float(f"{move:.6g}"), arrays_digest(packet.arrays)
            )  # the ledger has six digits
        return False

    def _form(self) -> tuple[str, Any]:
        """Name and form of the record that a report holds."""
        protocol = self._protocol
        return ("trained", Model(protocol.start)) if protocol.home == "server" else ("report", protocol.no_report)

    def _checked_move(self, client: int, packet: Packet) -> float:
        """How far the client moved; NaN without a limit."""
        try:
            name, like = self._form()
            report = decode(name, packet.arrays, like)
            require(len(packet.arrays) == len(parts(report)), "there are arrays that do not belong to a report")
        except FedsweError as error:
            raise Rejection("schema", str(error)) from None
        move = float("nan") if self._limit.off else self._moves.of(client, report, self._starts.get(client))
        if not move < float("inf"):  # a finite distance shows that all coefficients are
            _demand(is_finite(packet.arrays), "not finite", "it holds NaN or infinity")
        if not self._limit.off:
            _demand(move <= self._bound, "norm", f"it moved by {move:.3g}, the bound is {self._bound:.3g}")
        return move
