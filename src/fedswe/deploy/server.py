"""The server: it opens a round, receives reports, merges them, commits the round, and answers.

Reports are summed in the order of client numbers, as in the loop engine: the result depends on which clients are
merged and not on the order of arrival. They are in files until the round closes, and are read one at a time.
"""

from __future__ import annotations

import os
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedswe.core import keys
from fedswe.core.aggregation import Server
from fedswe.core.algorithm import Algorithm, received
from fedswe.core.records import Vector, add, parts
from fedswe.deploy import ledger
from fedswe.deploy.client_table import ClientTable
from fedswe.deploy.deployment import FILE as DEPLOYMENT_FILE
from fedswe.deploy.deployment import Deployment
from fedswe.deploy.durable_files import claim, read_whole
from fedswe.deploy.ledger import Ledger, require_own_seals
from fedswe.deploy.ledger_lines import Action, Change, Entry, Evaluation, Start, Title
from fedswe.deploy.log_file import fields, log
from fedswe.deploy.membership import Membership, require_joining, require_leaving
from fedswe.deploy.move import is_finite
from fedswe.deploy.move_limit import REFUSALS, MoveLimit
from fedswe.deploy.open_round import OpenRound
from fedswe.deploy.packet import Header, Packet, arrays_digest, encode, size_limit
from fedswe.deploy.protocol import RunProtocol
from fedswe.deploy.requests import RequestFolder
from fedswe.deploy.server_files import RESTORE, ServerFiles
from fedswe.deploy.stored_run import model_file
from fedswe.engine.outputs import Outputs
from fedswe.errors import FedsweError, require
from fedswe.results.history import Row
from fedswe.results.locks import Claim
from fedswe.tasks.problem import Problem


class ServerEndpoint:
    _lock: Claim

    def __init__(self, folder: Path, protocol: RunProtocol, problem: Problem) -> None:
        self.directory, self.deployment, self.problem = folder, protocol.deployment, problem
        self.algorithm: Algorithm = protocol.algorithm
        self.began = time.time()
        self.epoch = secrets.token_hex(4)  # of this process: reports to an earlier one are rejected
        self.committed: Entry | None = None  # the last committed round
        contents = ledger.read(folder / ledger.FILE)
        title, self._start = contents.title, contents.starts[-1] if contents.starts else None
        protocol.membership = Membership.of(contents)
        numbers = protocol.membership.numbers
        require(
            protocol.m >= numbers and self._continues(contents),
            f"{folder} holds a run of another algorithm, local training, seed, dtype or number of clients: "
            f"resume it with its own {DEPLOYMENT_FILE}, or choose another directory",
        )
        require(
            protocol.m <= numbers + RequestFolder(folder).joining(),
            f"the task has {protocol.m} clients, the run in {folder} {numbers}: set the number back, or let each new "
            f"client join with `fedswe deploy join {folder}`",
        )
        if protocol.m > numbers:
            require_joining(self.algorithm, problem.loads_by_client, self.deployment.simulate_absence)
        require(title.start == protocol.start_digest, f"{folder}: start.safetensors is not of this run: {RESTORE}")
        require_own_seals(folder, contents)
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

    def _continues(self, contents: ledger.Contents) -> bool:
        """Whether the run is of this deployment, or of another version with the same deployment.toml."""
        if contents.title.plan == self.deployment.digest():
            return True
        path = self.directory / DEPLOYMENT_FILE
        try:
            own = not contents.starts or ledger.file_digest(read_whole(path)) in contents.may_be(path.name)
        except OSError:
            return False
        return own and self.deployment.continues(self.directory, contents.title.plan)

    @classmethod
    def open(cls, directory: Path | str, deployment: Deployment, problem: Problem | None = None) -> ServerEndpoint:
        """Start a run in `directory`, or resume the one there at its first uncommitted round."""
        folder, files = Path(directory), ServerFiles(Path(directory))
        # A second server ends here, before it builds the task.
        lock = claim(folder) if os.path.exists(folder / ledger.FILE) else None
        try:
            problem = deployment.problem() if problem is None else problem
            start = files.start(problem.start) if os.path.exists(folder / ledger.FILE) else None
            protocol = RunProtocol(deployment, problem, start)  # refuses what cannot be deployed before any write
            require(
                deployment.min_clients <= protocol.m,
                f"a round needs {deployment.min_clients} clients, the task has {protocol.m}: lower deploy.min_clients",
            )
            try:
                files.create()
            except OSError as error:
                raise FedsweError(f"cannot write {folder}: {error.strerror}; choose another directory") from None
            lock = lock or claim(folder)
            if not (folder / ledger.FILE).exists():
                require(
                    files.empty(),
                    f"{folder} holds the state of a run but no {ledger.FILE}: restore it from a backup, "
                    "or choose another directory",
                )
                files.save_start(protocol.start)
                title = Title(secrets.token_hex(8), protocol.config_digest, protocol.start_digest, protocol.m)
                ledger.begin(folder / ledger.FILE, title)
            server = cls(folder, protocol, problem)
        except BaseException:
            if lock is not None:
                lock.release()
            raise
        server._lock = lock
        return server

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
        files = {DEPLOYMENT_FILE: ledger.file_digest(self.deployment.dump().encode())}
        path = self.directory / "run.json"
        if path.is_file():
            files[path.name] = known = ledger.file_digest(path.read_bytes())
            require(
                self._start is None or self._start.files.get(path.name, known) == known,
                f"{path} is not the file that the ledger names: restore it from a backup, "
                "or delete it to continue without its records",
            )
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

    def require_possible(self, action: Action, client: int) -> None:
        """Refuse a decision that has no meaning in this run."""
        membership, needed = self.membership, max(self.deployment.min_clients, 1)
        if action in ("evict", "admit", "leave"):
            require(client in membership.members(self.t), f"client {client} is not a member of the run")
        if action == "leave":
            require_leaving(self.algorithm)
            others = len(self.participants - {client})
            require(
                others >= needed,
                f"client {client} cannot leave: a round needs {needed} clients, and {others} others take part",
            )
        if action == "join":
            require_joining(self.algorithm, self.problem.loads_by_client, self.deployment.simulate_absence)
            require(
                client == membership.numbers < self.problem.m,
                f"client {client} cannot join: the next number is {membership.numbers}, "
                f"and the task has {self.problem.m} clients",
            )

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
        self._round.available.update(self._protocol.available(connected, self.t))
        chosen = self._seated(connected)
        self._opened = time.monotonic() if self._opened is None else self._opened
        self._round.asked.update(chosen)
        return _Jobs(chosen, lambda client: self._job(client, self._clients.lacks_base(client)))

    def _seated(self, clients: list[int]) -> list[int]:
        """The rule of the simulator, among the connected clients (available ones, where absence is simulated)."""
        algorithm, asked = self.algorithm, self._round.asked
        if not algorithm.seats():
            return clients
        again = [i for i in clients if i in asked]
        able = [i for i in clients if i not in asked and i in self._round.available]
        free = algorithm.seats() - len(asked)
        if len(able) > free:
            views = [self._protocol.at_client(i, self.t) for i in able]
            bids = [float(algorithm.bid(self._clients.state(i), at)) for i, at in zip(able, views, strict=True)]
            ties = keys.uniform(self._protocol.seed, "seats", self.t, torch.tensor(able)).numpy()
            able = [able[j] for j in np.lexsort((ties, np.array(bids)))[:free]]
        return sorted(again + able)

    def _job(self, client: int, attach_base: bool) -> Packet:
        protocol, clients, down = self._protocol, self._clients, self._round.down
        if protocol.home == "server":
            arrays = protocol.planned_job(client, self.t, clients.state(client), down)
            self._round.note_job(client, arrays["job.start"], arrays_digest(arrays))
        else:
            arrays = encode("down", down) | (clients.base_arrays(client) if attach_base else {})
        header: Header = {"client": client, "merged": clients.merged(client), "base": clients.base(client)}
        return self._round.count_sent(Packet("job", {**self._header(), **header}, arrays))

    def _header(self) -> Header:
        """With `head`, clients can tell later whether the ledger that they are shown is the one of this run.

        With `reached`, they know that rounds were taken back, also if the line that says so is lost.
        """
        names: Header = {"run": self.run, "epoch": self.epoch, "round": self.t, "plan": self._protocol.config_digest}
        return {**names, "head": self.head, "reached": max(self._reached, self.t)}

    def receive(self, client: int, packet: Packet | bytes) -> Packet | None:
        """Receive a message; an unusable one is rejected, counted and logged. May return a packet to send back."""
        return self._job(client, attach_base=True) if self._round.receive(client, packet) else None

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
        protocol, t, current = self._protocol, self.t, self._round
        current.refuse_far_moves()
        server, reply = self._merged()
        while not is_finite({**server.tensors(), **parts(reply)}):
            require(current.reports, "the model without any report is not finite: lower the rates and start a new run")
            current.refuse(current.farthest(), "not finite", "with its report the merged model is not finite")
            server, reply = self._merged()
        merged = sorted(current.reports)
        began = time.perf_counter()
        self._save_files(server, reply, merged)
        base = arrays_digest(encode("reply", reply)) if protocol.needs_base and merged else ""
        delivery = Packet("delivery", {**self._header(), "base": base}, encode("reply", reply))
        eager = merged if base and self.deployment.delivery == "eager" else []
        if eager:
            current.traffic["down delivery"] = delivery.size * len(eager)
        entry = self._entry(server, base, merged)
        before = self._server, self._clients, self.t, self._outputs.state()
        self._server, self._clients, self.t = server, self._clients.after(entry), t + 1
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
        for client in () if self.deployment.trail else merged:
            self._files.remove_report(t, client)
        self._begin()
        # The head of the ledger now: the line that has committed the merge.
        delivery = replace(delivery, header={**delivery.header, "head": self.head})
        self._evict_refused()
        return dict.fromkeys(eager, delivery)

    def _save_files(self, server: Server, reply: Any, merged: list[int]) -> None:
        """Write what the next round needs, and the trail."""
        t = self.t
        self._files.save_state(t + 1, server)
        if merged:
            self._files.save_version(t, reply, received(self._round.down, reply))
        for client in merged if self._protocol.home == "server" else ():
            state = self._state_and_report(client)[0]  # computed again: the states of all clients may not fit in memory
            settled = self.algorithm.settle(state, reply, self._protocol.at_client(client, t))
            self._files.save_client_state(client, t, settled)
        if self.deployment.trail:
            self._files.save_trail(t + 1, server.model)
            self._files.sync_reports(t, merged)

    def _entry(self, server: Server, base: str, merged: list[int]) -> Entry:
        """The line of the open round, but for its files and times."""
        current = self._round
        absent = current.declined - set(merged)
        return Entry(
            t=self.t,
            merged={client: self._clients.merged(client) for client in merged},
            model=arrays_digest({"x": server.model}),
            reply=base,
            down=arrays_digest(encode("down", current.down)),
            jobs={client: current.jobs[client] for client in merged if client in current.jobs},
            reports={client: current.reports[client].digest for client in merged},
            moves={} if self._limit.off else {client: current.reports[client].move for client in merged},
            declined=len(absent),
            rejected={client: dict(reasons) for client, reasons in current.rejected.items()},
            traffic=dict(current.traffic),
            available=len(current.available - absent),
        )

    def _merged(self) -> tuple[Server, Any]:
        """The server after the round and the reply, from the accepted reports in the order of client numbers."""
        reports, total = sorted(self._round.reports), self._protocol.no_report
        for client in reports:
            total = add(total, self._state_and_report(client)[1])
        return self._protocol.merge(self._server, total, len(reports), self.t)

    def _state_and_report(self, client: int) -> tuple[Any, Any]:
        """The client's state after its training, if it is kept at the server, and its report."""
        protocol, received = self._protocol, self._round.report(client)
        if protocol.home == "client":
            return None, received
        return protocol.report_of_end(client, self.t, self._clients.state(client), self._round.down, received.x)

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


class _Jobs(Mapping[int, Packet]):
    """Packets that are made when they are read."""

    def __init__(self, clients: list[int], job: Callable[[int], Packet]) -> None:
        self._clients, self._job = clients, job

    def __getitem__(self, client: int) -> Packet:
        if client not in self._clients:
            raise KeyError(client)
        return self._job(client)

    def __iter__(self) -> Iterator[int]:
        return iter(self._clients)

    def __len__(self) -> int:
        return len(self._clients)
