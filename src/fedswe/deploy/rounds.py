"""The rounds of a deployment, over any transport: quorum, deadline, reports, commit, deliveries and evaluation."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from fedswe.deploy import ledger
from fedswe.deploy.applied_requests import AppliedRequests
from fedswe.deploy.evaluation import Evaluator
from fedswe.deploy.log_file import fields, log, log_file
from fedswe.deploy.metrics import serve_metrics
from fedswe.deploy.monitor import Activity, Doing, Monitor
from fedswe.deploy.packet import Packet
from fedswe.deploy.server import ServerEndpoint
from fedswe.deploy.transport import Kind, Transport
from fedswe.experiment.configuration import settings
from fedswe.results.history import History
from fedswe.results.provenance import provenance
from fedswe.results.run_directory import RunDirectory
from fedswe.sources import recorded, refuse_changed
from fedswe.tracking.tracker import Status, check_trackers
from fedswe.tracking.tracking import Tracking

_POLL = 0.2  # seconds that a poll waits when nothing has arrived
_SILENT = 2  # rounds in a row without an answer, or deliveries without an acknowledgement, until nobody waits for it


class Rounds:
    def __init__(
        self, server: ServerEndpoint, transport: Transport, origin: Mapping[str, object] | None = None
    ) -> None:
        """`origin` is added to run.json, such as the version of what the transport is built on."""
        self._server, self._transport, self._origin = server, transport, origin or {}
        self._deadline, self._min_reports = server.deployment.deadline, server.deployment.min_reports
        self._unanswered: Counter[int] = Counter()  # client -> jobs in a row that it did not answer
        self._unacknowledged: Counter[int] = Counter()  # client -> deliveries in a row; its reports do not count here
        self._delivery_ends = 0.0  # until when an acknowledgement of the last deliveries is in time
        self._tracked = len(server.rows)  # rows of the history that trackers have, or are given when they start
        self.evaluation = Evaluator(server)
        self._operator = AppliedRequests(server)
        self._monitor = Monitor(server.directory, server.deployment, ledger.read(server.directory / ledger.FILE))

    def run(self) -> History:
        """Run all rounds that are left."""
        with (
            log_file(self._server.directory, self._server.deployment.log_format),
            serve_metrics(self._monitor, self._server.deployment.metrics_port),
        ):
            directory, experiment = RunDirectory(self._server.directory), self._server.deployment.experiment
            refuse_changed(directory.recorded(), experiment, directory.path)
            # Not the command line: Flower passes a token on it.
            known = {key: value for key, value in provenance(recorded(experiment)).items() if key != "command"}
            directory.note({**known, **self._origin})
            check_trackers(experiment.track)
            self._server.record_start()
            log.info("the server starts at round %d", self._server.t, extra=fields("start", self._server.t))
            with self._tracking() as tracking:
                while not self._server.finished and not self._server.stopped:
                    self.step()
                    self._track(tracking)
            end: Doing = "stopped" if self._server.stopped else "finished"
            log.info("the run is %s after %d rounds", end, self._server.t, extra=fields(end, self._server.t))
            self._note(end, self._connected())
        return self.evaluation.history

    @contextmanager
    def _tracking(self) -> Iterator[Tracking]:
        experiment = self._server.deployment.experiment
        end: Status = "failed"
        tracking = Tracking(
            experiment.track,
            settings(experiment),
            self._server.directory,
            earlier=self.evaluation.history.rows[: self._tracked],
            say=lambda text: log.warning("%s", text),
        )
        try:
            self._track(tracking)
            yield tracking
            end = "finished" if self._server.finished else "stopped"
        except (KeyboardInterrupt, SystemExit):
            end = "stopped"
            raise
        finally:
            tracking.finish(end)
            Tracking.wait([tracking])

    def _track(self, tracking: Tracking) -> None:
        """Give the new rows of the history to the trackers."""
        rows = self.evaluation.history.rows
        for row in rows[self._tracked :]:
            tracking.log(row)
        self._tracked = len(rows)

    def step(self) -> None:
        """Run one round, or end without one if an operator has stopped the server."""
        while not self._ready():
            self._receive("job", -1)
        if self._server.stopped:
            return
        t = self._server.t
        self._gather(t)
        deliveries, connections = self._server.close(), self._connected()
        self._send("delivery", t, deliveries, connections)
        self.evaluation.after_round()  # while the deliveries are on their way
        assert self._server.committed is not None
        log.info("round %d: %d reports merged", t, len(self._server.committed.merged), extra=fields("commit", t))
        self._monitor.committed(self._server.committed, self.evaluation.history.rows)
        self._note("delivering", connections)
        self._await_deliveries(t, set(deliveries), connections)

    def _ready(self) -> bool:
        """Whether a round opens, or the server was stopped."""
        self._operator.apply()
        if self._server.stopped:
            return True
        connected = self._connected()
        enough = len(connected) >= self._server.deployment.min_clients
        opens = enough and not self._server.paused
        if not opens:
            self._note("paused" if self._server.paused else "waiting for clients", connected)
        return opens

    def _connected(self) -> dict[int, int]:
        """The connected clients that may be asked."""
        participants = self._server.participants
        return {client: link for client, link in self._transport.connected().items() if client in participants}

    def _note(self, doing: Doing, connected: Iterable[int]) -> None:
        """Say what the server does, for metrics and status."""
        server, clients = self._server, tuple(sorted(connected))
        self._monitor.m, self._monitor.evicted = server.m, len(server.evicted)
        silent = tuple(client for client in clients if self._unanswered[client] >= _SILENT)
        self._monitor.now(Activity(doing, server.t, clients, server.deployment.min_clients, silent))

    def _gather(self, t: int) -> None:
        """Ask every client that is connected, connects or reconnects, until all have answered or the time is up.

        The round also ends with deploy.min_reports reports. Silent clients are waited for only if nobody answers.
        """
        ends = time.monotonic() + self._deadline
        asked: dict[int, int] = {}  # client -> the connection over which it was asked
        waiting, answered = set[int](), set[int]()
        while time.monotonic() < ends:
            connected = self._connected()
            self._note("gathering reports", connected)
            asked = {client: link for client, link in asked.items() if connected.get(client) == link}
            if new := [client for client in connected if client not in asked and client not in answered]:
                jobs = self._server.jobs(new)
                self._send("job", t, jobs, connected)
                asked |= {client: connected[client] for client in new}
                waiting |= jobs.keys()
            waiting = (waiting - answered) & connected.keys()
            silent = {client for client in waiting if self._unanswered[client] >= _SILENT} if answered else set[int]()
            if asked and not waiting - silent:
                return
            answered |= self._receive("job", t)
            if 0 < self._min_reports <= self._server.reported:
                return
        for client in sorted(waiting - answered):
            self._note_no_answer("job", t, client, f"did not answer within {self._deadline:g} s")

    def _note_no_answer(self, kind: Kind, t: int, client: int, what: str) -> None:
        counted = self._unanswered if kind == "job" else self._unacknowledged
        counted[client] += 1
        until = "is asked, but not waited for until it answers"
        if kind == "delivery":
            until = "gets deliveries, but nobody waits until it acknowledges one in time"
        more = f"; from now on it {until}" if counted[client] == _SILENT else ""
        log.warning("round %d: client %d %s%s", t, client, what, more, extra=fields("no answer", t, client))

    def _await_deliveries(self, t: int, delivered: set[int], connections: Mapping[int, int]) -> None:
        """Wait for the clients that are still connected; the others get their reply with their next job."""
        self._delivery_ends = time.monotonic() + self._deadline
        waiting = {client for client in delivered if self._unacknowledged[client] < _SILENT}
        while waiting and time.monotonic() < self._delivery_ends:
            waiting -= self._receive("delivery", t)
            now = self._transport.connected()
            waiting = {client for client in waiting if client in now and now[client] == connections.get(client)}
        for client in sorted(waiting):
            self._note_no_answer("delivery", t, client, f"did not acknowledge its delivery within {self._deadline:g} s")

    def _receive(self, kind: Kind, t: int) -> set[int]:
        """Pass arrivals to the server; the clients that have finished the given kind of message of round t.

        Answers to earlier messages are passed on too, and the server rejects what it cannot use.
        """
        finished = set[int]()
        for arrival in self._transport.poll(_POLL):
            current = (arrival.kind, arrival.round) == (kind, t)
            if arrival.packet is None:
                if current:
                    self._note_no_answer(kind, t, arrival.client, f"failed: {arrival.failure}")
                    finished.add(arrival.client)
                continue
            again = self._server.receive(arrival.client, arrival.packet)
            if arrival.kind == "delivery":
                if arrival.round == self._server.t - 1 and time.monotonic() < self._delivery_ends:
                    self._unacknowledged[arrival.client] = 0  # also of a client that nobody waited for
            elif again is None:  # a request for the base is no answer yet
                # A late answer shows that the client is there, but not that it answers in time.
                self._unanswered[arrival.client] = 0 if current else min(self._unanswered[arrival.client], _SILENT - 1)
            if again is not None:
                self._send("job", self._server.t, {arrival.client: again}, self._transport.connected())
            elif current:
                finished.add(arrival.client)
        return finished

    def _send(self, kind: Kind, t: int, packets: Mapping[int, Packet], connected: Mapping[int, int]) -> None:
        for client in packets:  # one at a time: a packet may hold a model of its own
            if client in connected:
                self._transport.send(kind, t, {client: packets[client]})
