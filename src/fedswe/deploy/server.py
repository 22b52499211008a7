"""The server: it opens a round, receives reports, merges them, commits the round, and answers.

``run_opening`` begins or checks the run, ``round_packets`` makes what is sent, ``open_round`` receives reports, and
``merged_round`` merges them; the server holds the state between rounds and commits each round to the ledger.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from fedswe.core.algorithm import Algorithm
from fedswe.core.records import Vector
from fedswe.deploy import ledger
from fedswe.deploy.client_table import ClientTable
from fedswe.deploy.deployment import Deployment
from fedswe.deploy.ledger import Ledger
from fedswe.deploy.ledger_lines import Action, Change, Entry, Evaluation, Start
from fedswe.deploy.log_file import fields, log
from fedswe.deploy.membership import Membership
from fedswe.deploy.merged_round import AcceptedReports
from fedswe.deploy.move_limit import REFUSALS, MoveLimit
from fedswe.deploy.open_round import OpenRound
from fedswe.deploy.packet import Packet, size_limit
from fedswe.deploy.round_packets import RoundPackets
from fedswe.deploy.run_opening import OpenedRun, checked_ledger, open_run, start_files
from fedswe.deploy.server_files import ServerFiles
from fedswe.deploy.stored_run import model_file
from fedswe.engine.outputs import Outputs
from fedswe.errors import require
from fedswe.results.history import Row
from fedswe.tasks.problem import Problem


class ServerEndpoint:
    def __init__(self, opened: OpenedRun) -> None:
        folder, protocol, self._lock = opened.folder, opened.protocol, opened.lock
        self.directory, self.deployment, self.problem = folder, protocol.deployment, opened.problem
        self.algorithm: Algorithm = protocol.algorithm
        self.began = time.time()
        self.epoch = secrets.token_hex(4)  # of this process: reports to an earlier one are rejected
        self.committed: Entry | None = None  # the last committed round
        contents = checked_ledger(opened)
        title, self._start = contents.title, contents.starts[-1] if contents.starts else None
        protocol.membership = Membership.of(contents)
        self._files, self._protocol = ServerFiles(folder, contents.entries), protocol
        self._files.refuse_later(contents.reached)
        self.run, self.t, self.evicted = title.run, len(contents.entries), contents.evicted
        self._reached = contents.reached
        self.paused, self.stopped = contents.paused, False
        self._clients = ClientTable(protocol, self._files)
        self._kept: deque[tuple[int, dict[int, int]]] = deque(maxlen=1 + self.deployment.keep_rounds)
        self._kept.append((0, {}))
        for entry in contents.entries:
            self._clients, self.committed = self._clients.after(entry), entry
            self._kept.append((entry.t + 1, self._clients.opened(entry.t + 1).last))
        self._clients = self._clients.opened(self.t)
        self._limit = MoveLimit.of_run(protocol, contents.entries, contents.changes)
        self._files.check(self.t, self._clients.last)
        self._files.check_kept_reports(contents.entries)
        self._files.remove_leftovers(contents.entries)
        initial = protocol.server_init()
        self._server = self._files.state(self.t, initial) if self.t else initial
        self._fsync = 0.0  # seconds of the ledger's last fsync, recorded in the next line
        self._outputs = Outputs(self, self.deployment.experiment.evaluate.outputs())
        self._load_outputs()
        self.rows = contents.rows  # the evaluations so far
        evaluated = int(self.rows[-1]["round"]) if self.rows else 0
        self.unevaluated = contents.entries[evaluated:]  # rounds since the last evaluation
        self._ledger = Ledger(folder / ledger.FILE, contents)
        self.record_start()
        self.deployment.save(folder)  # rounds, delivery and deadlines may change between two starts
        self._begin()

    @classmethod
    def open(cls, directory: Path | str, deployment: Deployment, problem: Problem | None = None) -> ServerEndpoint:
        """Start a run in `directory`, or resume the one there at its first uncommitted round."""
        opened = open_run(Path(directory), deployment, problem)
        try:
            return cls(opened)
        except BaseException:
            opened.lock.release()
            raise

    def release(self) -> None:
        """Unlock the directory; everything committed is already on disk."""
        self._ledger.close()
        self._lock.release()

    def __enter__(self) -> ServerEndpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def finished(self) -> bool:
        return self.t >= self.deployment.experiment.rounds

    def _begin(self) -> None:
        """Begin round t: all of its state is on disk, and older state is removed."""
        self._opened: float | None = None  # when its first job was made, by the monotonic clock
        down = self._protocol.downlink(self._server, self.t)
        names = self.run, self.epoch, self.t
        self._round = OpenRound(
            self._protocol, self._clients, self._files, self._limit, *names, down, self._server.model
        )
        self._packets = RoundPackets(self._protocol, self._clients, self._round, self._ledger, self._reached)
        self._files.sweep(dict(self._kept))
        if not self.finished:
            self._files.remove_models()  # of a run to which rounds were added
        else:
            self._save_models()

    def _save_models(self) -> None:
        content = model_file(self._outputs, self.rows, self.deployment, self.problem, self.t)
        self._files.save_models(content)

    def _load_outputs(self) -> None:
        """Restore averages over rounds."""
        wanted = self._outputs.state()
        if not self.t or not wanted:
            return
        state = self._files.outputs(self.t)
        if state is not None and state.keys() == wanted.keys():
            self._outputs.load(state)
            return
        names = ", ".join(self._outputs.stateful)
        log.warning("round %d: no earlier state of %s is stored: its average begins here", self.t, names)

    def record(self, line: Evaluation | Change | Start) -> None:
        """Append a line to the ledger that is not a round."""
        self._ledger.append(line)
        if isinstance(line, Evaluation):
            self.rows.append(line.row)
            self.unevaluated = []
            if self.finished and self.deployment.experiment.evaluate.chooses:
                self._save_models()  # by the last evaluation, another may be chosen

    def record_start(self) -> None:
        """Append the digests of the files that belong to this start, before deployment.toml is written."""
        files = start_files(self.directory, self.deployment, self._start)
        start = Start(self.t, self.epoch, files, self.deployment.scores_digest())
        before = None if self._start is None else replace(self._start, t=self.t, epoch=self.epoch, time=0.0)
        same = before == start
        if not same or (not self.finished and self._start != start):  # a finished run may be opened again and again
            self.record(start)
            self._start = start

    def change(self, action: Action, client: int = -1, reason: str = "") -> None:
        """Record and apply a decision that is possible, from round t on, which has no reports yet."""
        change = Change(action, self.t, client, reason)
        self.record(change)
        match action:
            case "evict" | "admit":
                self.evicted = self.evicted | {client} if action == "evict" else self.evicted - {client}
                self._limit.apply(change)
            case "pause" | "resume":
                self.paused = action == "pause"
            case "stop":
                self.stopped = True
            case "join" | "leave":
                self._protocol.membership = self._protocol.membership.after([change])
                self.evicted = self.evicted - {client}
                self._limit.apply(change)
                self._clients = self._clients.opened(self.t)
                self._kept[-1] = (self.t, self._clients.last)
                before = self._round
                self._begin()
                # Late messages have been counted already.
                self._round.traffic, self._round.rejected = before.traffic, before.rejected

    @property
    def membership(self) -> Membership:
        return self._protocol.membership

    @property
    def m(self) -> int:
        """Members in round t."""
        return self.membership.count(self.t)

    @property
    def participants(self) -> frozenset[int]:
        """The clients that may be asked: the members that are not evicted."""
        return self.membership.members(self.t) - self.evicted

    @property
    def head(self) -> str:
        """The digest of the ledger's last line."""
        return self._ledger.head

    # opening a round -----------------------------------------------------------------------------------
    def jobs(self, clients: Iterable[int]) -> Mapping[int, Packet]:
        """Open round t, or ask more clients. Where seats are limited, only the lowest bidders get a job.

        A packet is made when it is read from the mapping: those of all clients may not fit in memory.
        """
        clients, numbers = set(clients), self.problem.m
        for client in clients:
            require(0 <= client < numbers, f"there is no client {client}: the run has {numbers}, counted from 0")
        connected = sorted(clients & self.participants)
        if self.finished:
            return {}
        jobs = self._packets.jobs(connected)
        self._opened = time.monotonic() if self._opened is None else self._opened
        return jobs

    def receive(self, client: int, packet: Packet | bytes) -> Packet | None:
        """Receive a message; an unusable one is rejected, counted and logged. May return a packet to send back."""
        return self._packets.job(client, attach_base=True) if self._round.receive(client, packet) else None

    @property
    def largest_message(self) -> int:
        """Bytes of the largest message from a client; a transport need not read larger ones."""
        return size_limit(self._protocol.to_server)

    @property
    def reported(self) -> int:
        """Reports accepted in the open round."""
        return len(self._round.reports)

    # closing a round -----------------------------------------------------------------------------------
    def close(self) -> dict[int, Packet]:
        """Merge the reports and commit the round; returns the eager deliveries. An error before the commit leaves the
        round open and unchanged."""
        if self.finished:
            return {}
        t = self.t
        done = AcceptedReports(self._protocol, self._clients, self._round).merged(self._server)
        began = time.perf_counter()
        done.save(self._files)
        delivery = self._packets.delivery(done.reply, done.base)
        eager = done.merged if done.base and self.deployment.delivery == "eager" else []
        if eager:
            self._round.traffic["down delivery"] = delivery.size * len(eager)
        entry = done.entry()
        before = self._server, self._clients, self.t, self._outputs.state()
        self._server, self._clients, self.t = done.server, self._clients.after(entry), t + 1
        try:
            self._outputs.after_round()
            if state := self._outputs.state():
                self._files.save_outputs(t + 1, state)
            seconds = round(time.perf_counter() - began + self._fsync, 6)
            took = 0.0 if self._opened is None else round(time.monotonic() - self._opened, 3)
            entry = replace(entry, files=self._files.written(), seconds=seconds, took=took)
            began = time.perf_counter()
            self._ledger.append(entry)  # the commit
            self._fsync = time.perf_counter() - began
        except BaseException:
            self._server, self._clients, self.t, outputs = before
            self._outputs.load(outputs)
            raise
        self.committed = entry
        self.unevaluated.append(entry)
        self._kept.append((self.t, self._clients.last))
        self._limit.update(entry)
        for client in () if self.deployment.trail else done.merged:
            self._files.remove_report(t, client)
        self._begin()
        # The head of the ledger now: the line that has committed the merge.
        delivery = replace(delivery, header={**delivery.header, "head": self.head})
        self._evict_refused()
        return dict.fromkeys(eager, delivery)

    def _evict_refused(self) -> None:
        """Evict the clients that were refused again and again."""
        for client in self._limit.refused_often() - self.evicted:
            reason = f"refused in {REFUSALS} rounds without a merged report between them"
            self.change("evict", client, reason)
            log.warning(
                "round %d: client %d was %s and is evicted: ask it again with `fedswe deploy admit %s %d`",
                *(self.t, client, reason, self.directory, client),
                extra=fields("evict", self.t, client),
            )

    # models --------------------------------------------------------------------------------------------
    def server_model(self) -> Vector:
        """x^t."""
        return self._server.model

    def client_mean(self) -> Vector:
        """The mean over all clients of the model each last received, from the ledger and the stored replies."""
        return self._clients.mean()

    def models(self) -> dict[str, Vector]:
        """The models named by evaluate.model."""
        return self._outputs.models(self.rows)

    def scores(self) -> Row:
        """The columns of an evaluation now: the scores of the models named by evaluate.model."""
        return self._outputs.columns(self.problem.evaluate, self.rows)
