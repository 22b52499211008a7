"""The server's end: it opens a round, takes reports, merges, commits, and answers.

Reports are summed in the order of client numbers, as the loop engine does, so the result depends on who was merged
and not on who came first; until the round closes they are held in memory.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedswe.core import keys
from fedswe.core.algorithm import Done
from fedswe.core.records import Vector, add
from fedswe.deploy import deployment as plan
from fedswe.deploy import ledger
from fedswe.deploy.client_table import ClientTable
from fedswe.deploy.codec import digest, encode
from fedswe.deploy.deployment import Deployment
from fedswe.deploy.durable_files import claim
from fedswe.deploy.ledger import Entry, Ledger, Title
from fedswe.deploy.open_round import OpenRound
from fedswe.deploy.packet import Header, Packet
from fedswe.deploy.protocol import RunProtocol
from fedswe.deploy.server_files import ServerFiles
from fedswe.errors import FedsweError, require
from fedswe.tasks.problem import Problem


class ServerEndpoint:
    _lock: int

    def __init__(self, folder: Path, deployment: Deployment, problem: Problem) -> None:
        self.deployment, self.problem, self.m = deployment, problem, problem.m
        self.epoch = secrets.token_hex(4)  # of this process: reports to an earlier one are not taken
        self.committed: Entry | None = None  # the last committed round
        self._files = store = ServerFiles(folder)
        self._protocol = protocol = RunProtocol(deployment, problem, store.start(problem.start))
        title, entries, size = ledger.read(folder / ledger.FILE)
        require(
            title.m == protocol.m and deployment.continues(folder, title.plan),
            f"{folder} holds a run of another algorithm, local training, seed, dtype or number of clients: "
            f"resume it with its own {plan.FILE}, or choose another directory",
        )
        require(title.start == protocol.start_digest, f"{folder}: start.safetensors is not of this run")
        self.run, self.t = title.run, len(entries)
        self._clients = ClientTable(protocol, store)
        for entry in entries:
            self._clients.note(entry)
            self.committed = entry
        initial = protocol.algorithm.server_init(protocol.start)
        self._server: Any = store.state(self.t, initial) if self.t else initial
        self._fsync = 0.0  # of the ledger's last line: only the next line can tell
        deployment.save(folder)  # rounds, delivery and deadlines may change on the way
        self._ledger = Ledger(folder / ledger.FILE, size)
        self._begin()

    @classmethod
    def open(cls, directory: Path | str, deployment: Deployment, problem: Problem | None = None) -> ServerEndpoint:
        """Start a run in `directory`, or resume the one there at its first uncommitted round."""
        folder = Path(directory)
        problem = deployment.problem() if problem is None else problem
        protocol = RunProtocol(deployment, problem)  # what cannot be deployed is refused before anything is written
        require(
            deployment.min_clients <= protocol.m,
            f"a round needs {deployment.min_clients} clients, the task has {protocol.m}: lower deploy.min_clients",
        )
        try:
            ServerFiles(folder).create()
        except OSError as error:
            raise FedsweError(f"cannot write {folder}: {error.strerror}; choose another directory") from None
        lock = claim(folder)
        try:
            if not (folder / ledger.FILE).exists():
                ServerFiles(folder).save_start(protocol.start)
                title = Title(secrets.token_hex(8), protocol.plan, protocol.start_digest, protocol.m)
                ledger.begin(folder / ledger.FILE, title)
            server = cls(folder, deployment, problem)
        except BaseException:
            os.close(lock)
            raise
        server._lock = lock
        return server

    def release(self) -> None:
        """Give the directory up; everything committed is there already."""
        self._ledger.close()
        os.close(self._lock)

    @property
    def finished(self) -> bool:
        return self.t >= self.deployment.experiment.rounds

    def _begin(self) -> None:
        down = self._protocol.algorithm.downlink(self._server, self._protocol.at_server(self.t))
        self._open = OpenRound(self._protocol, self._clients, self.run, self.epoch, self.t, down)
        if self.committed is not None:
            self._open.moves, self._open.farthest = self.committed.moves, self.committed.farthest
        self._files.sweep(self.t, self._clients.last)
        if self.finished:
            self._files.save_models(self.models())

    # opening a round -----------------------------------------------------------------------------------
    def jobs(self, clients: Iterable[int]) -> dict[int, Packet]:
        """Open round t, or ask more clients; where seats are limited, only the lowest bidders get a job."""
        wanted = sorted(set(clients))
        for client in wanted:
            require(0 <= client < self.m, f"there is no client {client}: the run has {self.m}, counted from 0")
        if self.finished:
            return {}
        seated = self._seated(wanted)
        self._open.asked.update(seated)
        return {client: self._job(client, self._clients.lacks(client)) for client in seated}

    def _seated(self, clients: list[int]) -> list[int]:
        """The simulator's rule, among the clients asked (and, where absence is simulated, present)."""
        algorithm, asked = self._protocol.algorithm, self._open.asked
        if not algorithm.seats():
            return clients
        again = [i for i in clients if i in asked]
        able = [i for i in clients if i not in asked and self._protocol.present(i, self.t)]
        free = algorithm.seats() - len(asked)
        if len(able) > free:
            views = [self._protocol.at_client(i, self.t) for i in able]
            bids = [float(algorithm.bid(self._clients.state(i), at)) for i, at in zip(able, views, strict=True)]
            ties = keys.uniform(self._protocol.seed, "seats", self.t, torch.tensor(able)).numpy()
            able = [able[j] for j in np.lexsort((ties, np.array(bids)))[:free]]
        return sorted(again + able)

    def _job(self, client: int, attach: bool) -> Packet:
        protocol, clients, down = self._protocol, self._clients, self._open.down
        if protocol.home == "server":
            job = protocol.algorithm.plan(clients.state(client), down, protocol.at_client(client, self.t))
            arrays = {"job.start": job.start} | ({} if job.drift is None else {"job.drift": job.drift})
        else:
            arrays = encode("down", down) | (clients.attachment(client) if attach else {})
        envelope: Header = {"client": client, "merged": clients.merged(client), "base": clients.base(client)}
        return self._open.sent(Packet("job", {**self._header(), **envelope}, arrays))

    def _header(self) -> Header:
        return {"run": self.run, "epoch": self.epoch, "round": self.t, "plan": self._protocol.plan}

    def receive(self, client: int, packet: Packet | bytes) -> Packet | None:
        """Take a message; what cannot be used is rejected, counted and logged. May return one to send back."""
        return self._job(client, attach=True) if self._open.take(client, packet) else None

    # closing a round -----------------------------------------------------------------------------------
    def close(self) -> dict[int, Packet]:
        """Merge the reports, commit the round, and hand out the eager deliveries. On an error nothing has changed."""
        if self.finished:
            return {}
        protocol, algorithm, t, came = self._protocol, self._protocol.algorithm, self.t, self._open
        merged, total, after = sorted(came.reports), protocol.nobody, {}
        for client in merged:
            report = came.reports[client]
            if protocol.home == "server":
                after[client], report = self._report_of(client, end=report.x)
            total = add(total, report)
        server, reply = algorithm.merge(self._server, total, len(merged), protocol.at_server(t))

        began = time.perf_counter()
        self._files.save_state(t + 1, server)
        if merged:
            self._files.save_version(t, reply, algorithm.received(came.down, reply))
        for client, state in after.items():
            self._files.save_row(client, t, algorithm.settle(state, reply, protocol.at_client(client, t)))
        if self.deployment.trail:
            self._files.save_trail(t + 1, algorithm.model(server))
        written = time.perf_counter() - began

        base = digest(encode("reply", reply)) if protocol.rebuilds and merged else ""
        delivery = Packet("delivery", {**self._header(), "base": base}, encode("reply", reply))
        eager = merged if base and self.deployment.delivery == "eager" else []
        traffic = came.traffic | ({"down delivery": delivery.size * len(eager)} if eager else {})
        entry = Entry(
            t=t,
            merged={client: self._clients.merged(client) for client in merged},
            model=digest({"x": algorithm.model(server)}),
            reply=base,
            declined=len(came.declined - set(merged)),
            rejected={client: dict(why) for client, why in came.rejected.items()},
            traffic=dict(traffic),
            seconds=round(written + self._fsync, 6),
            moves=came.moves,
            farthest=came.farthest,
        )
        began = time.perf_counter()
        self._ledger.append(entry)  # the commit
        self._fsync = time.perf_counter() - began

        self._clients.note(entry)
        self._server, self.committed, self.t = server, entry, t + 1
        self._begin()
        return dict.fromkeys(eager, delivery)

    def _report_of(self, client: int, end: Vector) -> tuple[Any, Any]:
        """State and report of a client whose home is the server, from the end of its training."""
        protocol, down = self._protocol, self._open.down
        state, at = self._clients.state(client), protocol.at_client(client, self.t)
        job = protocol.algorithm.plan(state, down, at)
        done = Done(end, protocol.local.steps, protocol.local.lr_at(self.t))
        return protocol.algorithm.report(state, down, job, done, at)

    # models --------------------------------------------------------------------------------------------
    def server_model(self) -> Vector:
        """x^t."""
        return self._protocol.algorithm.model(self._server)

    def client_mean(self) -> Vector:
        """The mean over all clients of the model each last received, from the ledger and the versions in use."""
        return self._clients.mean()

    def models(self) -> dict[str, Vector]:
        return {"server": self.server_model(), "client_mean": self.client_mean()}
