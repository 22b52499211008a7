"""The rounds of a deployment, over any transport: quorum, deadline, reports, commit, deliveries and evaluation."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from fedswe.deploy import ledger
from fedswe.deploy.evaluation import Evaluator
from fedswe.deploy.metrics import serve_metrics
from fedswe.deploy.monitor import Activity, Doing, Monitor
from fedswe.deploy.operator import Operator
from fedswe.deploy.packet import Packet
from fedswe.deploy.server import ServerEndpoint
from fedswe.deploy.transport import Kind, Transport
from fedswe.errors import FedsweError
from fedswe.results.history import History
from fedswe.results.provenance import provenance
from fedswe.results.run_directory import RunDirectory
from fedswe.sources import recorded, refuse_changed

log = logging.getLogger("fedswe.deploy")

LOG = "server.log"
_POLL = 0.2  # seconds that a poll waits when nothing has arrived


class Rounds:
    def __init__(
        self, server: ServerEndpoint, transport: Transport, origin: Mapping[str, object] | None = None
    ) -> None:
        """`origin` is added to run.json, such as the version of what the transport is built on."""
        self._server, self._transport, self._origin = server, transport, origin or {}
        self._deadline = server.deployment.deadline
        self.evaluation = Evaluator(server)
        self._operator = Operator(server)
        self._monitor = Monitor(server.directory, server.deployment, ledger.read(server.directory / ledger.FILE))

    def run(self) -> History:
        """Run all rounds that are left."""
        with _log_file(self._server.directory), serve_metrics(self._monitor, self._server.deployment.metrics_port):
            directory, experiment = RunDirectory(self._server.directory), self._server.deployment.experiment
            refuse_changed(directory.recorded(), experiment, directory.path)
            # Not the command line: Flower passes a token on it.
            known = {key: value for key, value in provenance(recorded(experiment)).items() if key != "command"}
            directory.note({**known, **self._origin})
            self._server.record_start()
            while not self._server.finished and not self._server.stopped:
                self.step()
            self._note("stopped" if self._server.stopped else "finished")
        return self.evaluation.history

    def step(self) -> None:
        """Run one round, or end without one if an operator has stopped the server."""
        while not self._ready():
            self._receive("job", -1)
        if self._server.stopped:
            return
        t = self._server.t
        self._gather(t)
        deliveries, connections = self._server.close(), self._transport.connected()
        self._send("delivery", t, deliveries, connections)
        self.evaluation.after_round()  # while the deliveries are on their way
        self._note_commit()
        self._await_deliveries(t, set(deliveries), connections)

    def _ready(self) -> bool:
        """Whether a round opens, or the server was stopped."""
        self._operator.apply()
        if self._server.stopped:
            return True
        enough = len(self._connected()) >= self._server.deployment.min_clients
        self._note("paused" if self._server.paused else "gathering reports" if enough else "waiting for clients")
        return enough and not self._server.paused

    def _connected(self) -> dict[int, int]:
        """The connected clients that may be asked."""
        return {
            client: link for client, link in self._transport.connected().items() if client in self._server.participants
        }

    def _note(self, doing: Doing) -> None:
        server, connected = self._server, tuple(sorted(self._connected()))
        self._monitor.m, self._monitor.evicted = server.m, len(server.evicted)
        self._monitor.now(Activity(doing, server.t, connected, server.deployment.min_clients))

    def _note_commit(self) -> None:
        assert self._server.committed is not None
        self._monitor.committed(self._server.committed, self.evaluation.history.rows)
        self._note("delivering")

    def _gather(self, t: int) -> None:
        """Ask every client that is connected, connects or reconnects, until all have answered or the time is up."""
        ends = time.monotonic() + self._deadline
        asked: dict[int, int] = {}  # client -> the connection over which it was asked
        waiting, answered = set[int](), set[int]()
        while time.monotonic() < ends:
            connected = self._connected()
            self._note("gathering reports")
            asked = {client: link for client, link in asked.items() if connected.get(client) == link}
            if new := [client for client in connected if client not in asked and client not in answered]:
                jobs = self._server.jobs(new)
                self._send("job", t, jobs, connected)
                asked |= {client: connected[client] for client in new}
                waiting |= jobs.keys()
            waiting = (waiting - answered) & connected.keys()
            if asked and not waiting:
                return
            answered |= self._receive("job", t)
        for client in sorted(waiting - answered):
            log.warning("round %d: client %d did not answer within %g s", t, client, self._deadline)

    def _await_deliveries(self, t: int, waiting: set[int], connections: Mapping[int, int]) -> None:
        """Wait for the clients that are still connected; the others get their reply with their next job."""
        ends = time.monotonic() + self._deadline
        while waiting and time.monotonic() < ends:
            waiting -= self._receive("delivery", t)
            now = self._transport.connected()
            waiting = {client for client in waiting if client in now and now[client] == connections.get(client)}

    def _receive(self, kind: Kind, t: int) -> set[int]:
        """Pass arrivals to the server; the clients that have finished the given kind of message of round t.

        Answers to earlier messages are passed on too, and the server rejects what it cannot use.
        """
        finished = set[int]()
        for arrival in self._transport.poll(_POLL):
            current = (arrival.kind, arrival.round) == (kind, t)
            if arrival.packet is None:
                if current:
                    log.warning("round %d: client %d failed: %s", t, arrival.client, arrival.failure)
                    finished.add(arrival.client)
            elif (again := self._server.receive(arrival.client, arrival.packet)) is not None:
                self._send("job", self._server.t, {arrival.client: again}, self._transport.connected())
            elif current:
                finished.add(arrival.client)
        return finished

    def _send(self, kind: Kind, t: int, packets: Mapping[int, Packet], connected: Mapping[int, int]) -> None:
        self._transport.send(kind, t, {client: packet for client, packet in packets.items() if client in connected})


@contextmanager
def _log_file(directory: Path) -> Iterator[None]:
    """Write warnings of the server to server.log as well."""
    try:
        handler = logging.FileHandler(directory / LOG)
    except OSError as error:
        raise FedsweError(f"cannot write {directory / LOG}: {error.strerror}; check its permissions") from None
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        handler.close()
