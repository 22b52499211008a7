"""A round whose reports are merged, before it is committed.

Reports are summed in the order of client numbers, as in the loop engine: the result depends on which clients are
merged and not on the order of arrival. They are in files until the round closes, and are read one at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedswe.core.aggregation import Server
from fedswe.core.algorithm import received
from fedswe.core.records import add, parts
from fedswe.deploy.client_table import ClientTable
from fedswe.deploy.ledger_lines import Entry
from fedswe.deploy.move import is_finite
from fedswe.deploy.open_round import OpenRound
from fedswe.deploy.packet import arrays_digest, encode
from fedswe.deploy.protocol import RunProtocol
from fedswe.deploy.server_files import ServerFiles
from fedswe.errors import require


@dataclass(frozen=True)
class AcceptedReports:
    """The reports of the open round that may be merged."""

    protocol: RunProtocol
    clients: ClientTable
    current: OpenRound

    def merged(self, server: Server) -> MergedRound:
        """Merge them; those that moved too far, or make the model infinite, are refused."""
        current = self.current
        current.refuse_far_moves()
        after, reply = self._merge(server)
        while not is_finite({**after.tensors(), **parts(reply)}):
            require(current.reports, "the model without any report is not finite: lower the rates and start a new run")
            current.refuse(current.farthest(), "not finite", "with its report the merged model is not finite")
            after, reply = self._merge(server)
        merged = sorted(current.reports)
        base = arrays_digest(encode("reply", reply)) if self.protocol.needs_base and merged else ""
        return MergedRound(self, after, reply, merged, base)

    def _merge(self, server: Server) -> tuple[Server, Any]:
        reports, total = sorted(self.current.reports), self.protocol.no_report
        for client in reports:
            total = add(total, self.state_and_report(client)[1])
        return self.protocol.merge(server, total, len(reports), self.current.t)

    def state_and_report(self, client: int) -> tuple[Any, Any]:
        """The client's state after its training, if it is kept at the server, and its report."""
        protocol, current, report = self.protocol, self.current, self.current.report(client)
        if protocol.home == "client":
            return None, report
        return protocol.report_of_end(client, current.t, self.clients.state(client), current.down, report.x)


@dataclass(frozen=True)
class MergedRound:
    """What a round has made of its reports. Nothing is changed but files, which a commit makes valid."""

    reports: AcceptedReports
    server: Server  # after the round
    reply: Any
    merged: list[int]  # the clients whose reports are in it, in order
    base: str  # the digest of the reply; empty if no client starts from it

    def save(self, files: ServerFiles) -> None:
        """Write what the next round needs, and the trail."""
        protocol, t = self.reports.protocol, self.reports.current.t
        files.save_state(t + 1, self.server)
        if self.merged:
            files.save_version(t, self.reply, received(self.reports.current.down, self.reply))
        for client in self.merged if protocol.home == "server" else ():
            state = self.reports.state_and_report(client)[0]  # again: the states of all clients may not fit in memory
            settled = protocol.algorithm.settle(state, self.reply, protocol.at_client(client, t))
            files.save_client_state(client, t, settled)
        if protocol.deployment.trail:
            files.save_trail(t + 1, self.server.model)
            files.sync_reports(t, self.merged)

    def entry(self) -> Entry:
        """The line of the round, but for its files and times."""
        current, clients, merged = self.reports.current, self.reports.clients, self.merged
        absent = current.declined - set(merged)
        return Entry(
            t=current.t,
            merged={client: clients.merged(client) for client in merged},
            model=arrays_digest({"x": self.server.model}),
            reply=self.base,
            down=arrays_digest(encode("down", current.down)),
            jobs={client: current.jobs[client] for client in merged if client in current.jobs},
            reports={client: current.reports[client].digest for client in merged},
            moves=dict(sorted(current.moves.items())),
            declined=len(absent),
            rejected={client: dict(reasons) for client, reasons in current.rejected.items()},
            traffic=dict(current.traffic),
            available=len(current.available - absent),
        )
