"""Fault injection: messages are lost, late, repeated and out of order; processes die at any moment.

Deterministic: everything follows from one seed. Processes die between any two messages, and right before, right
after and in the middle of every durable write, by a wrapper around the functions that write.
"""

import os
import random
import tempfile
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path

from fedswe.deploy import (
    ClientEndpoint,
    ServerEndpoint,
    client,
    client_trail,
    deployment,
    durable_files,
    ledger,
    server_files,
)
from fedswe.results.files import write_whole


class Crash(BaseException):
    """Not an Exception: no code of the package may catch it."""


def fuse(monkeypatch, strike):
    """Let `strike(where)` decide at every durable write whether the process dies before, in or after it."""
    append = durable_files.append

    def fused_write(path, content):
        fate = strike(path.parent.name.rstrip("0123456789"))
        if fate == "before":
            raise Crash
        if fate == "in":
            data = content.encode() if isinstance(content, str) else content
            path.with_name(f".{path.name}.part").write_bytes(data[: len(data) // 2])
            raise Crash
        write_whole(path, content)
        if fate == "after":
            raise Crash

    def fused_append(path, handle, size, line):
        fate = strike("commit" if path.name == ledger.FILE else "journal")
        if fate == "before":
            raise Crash
        if fate == "in":
            os.pwrite(handle, line[: len(line) // 2], size)
            raise Crash
        size = append(path, handle, size, line)
        if fate == "after":
            raise Crash
        return size

    for module in (client, client_trail, deployment, ledger, server_files):
        monkeypatch.setattr(module, "write_whole", fused_write)
    monkeypatch.setattr(durable_files, "append", fused_append)


@contextmanager
def in_memory():
    """A folder in memory where there is one: these tests sync files many thousand times."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        yield Path(folder)


class Storm:
    def __init__(self, folder, deployment, seed, monkeypatch, rate=0.1):
        self.folder, self.deployment, self.problem = folder, deployment, deployment.problem()
        self.rng, self.rate = random.Random(seed), rate
        self.faults = Counter()
        fuse(monkeypatch, self.strike)
        self.air = []  # (steps to go, recipient or None for the server, sender, bytes)
        self.old = []  # some messages arrive again much later
        self.server, self.clients = None, {}

    def run(self, steps_per_round=8):
        m = self.problem.m
        for _ in range(50 * self.deployment.experiment.rounds):  # more than enough, unless it hangs
            if self.up() and self.server.finished:
                break
            self.guarded(self.open_round)
            for _ in range(self.rng.randrange(2, steps_per_round)):
                self.step()
            self.guarded(self.close_round)
            if self.chance(self.rate / 2):
                self.lose_disk(self.rng.randrange(m))
        self.up()
        assert self.server.finished
        return self

    # the server's side -------------------------------------------------------------------------------------
    def up(self):
        while self.server is None:
            with suppress(Crash):
                self.server = ServerEndpoint.open(self.folder / "server", self.deployment, self.problem)
        return True

    def guarded(self, act, *args):
        """Run an action of the server, during which it may die."""
        self.up()
        try:
            act(*args)
        except Crash:
            self.kill_server()
        if self.server is not None and self.chance(self.rate / 4):
            self.faults["server killed"] += 1
            self.kill_server()

    def kill_server(self):
        server, self.server = self.server, None
        server.release()  # as the system does for a dead process: its file handles are closed

    def open_round(self):
        connected = [i for i in range(self.problem.m) if self.rng.random() < 0.9]
        for i, job in self.server.jobs(connected).items():
            self.send(i, None, job)

    def close_round(self):
        for i, delivery in self.server.close().items():
            self.send(i, None, delivery)

    def heard(self, i, data):
        answer = self.server.receive(i, data)
        if answer is not None:
            self.send(i, None, answer)

    # the clients' side -------------------------------------------------------------------------------------
    def told(self, i, data):
        try:
            if i not in self.clients:
                self.clients[i] = ClientEndpoint.open(self.folder / f"client{i}", self.deployment, i, self.problem)
            answer = self.clients[i].handle(data)
            if self.chance(self.rate / 4):
                raise Crash
            self.send(None, i, answer)
        except Crash:
            self.faults["client died"] += 1
            self.clients.pop(i, None)

    def lose_disk(self, i):
        path = self.folder / f"client{i}" / f"client-{i}.safetensors"
        self.clients.pop(i, None)
        if path.exists():
            how = self.rng.choice(["deleted", "cut", "garbage"])
            self.faults[f"client state {how}"] += 1
            if how == "deleted":
                path.unlink()
            else:
                data = path.read_bytes()
                path.write_bytes(data[: len(data) // 2] if how == "cut" else self.rng.randbytes(len(data)))

    def strike(self, where):
        if not self.chance(self.rate / 2):
            return None
        fate = self.rng.choice(["before", "in", "after"])
        self.faults[f"died {fate} {where}"] += 1
        return fate

    # the network -------------------------------------------------------------------------------------------
    def chance(self, rate):
        return self.rng.random() < rate

    def send(self, to, sender, packet):
        data = packet.to_bytes()
        if self.chance(self.rate):
            self.faults["lost"] += 1
            return
        copies = 1
        if self.chance(self.rate):
            self.faults["repeated"] += 1
            copies = 2
        for _ in range(copies):
            wait = self.rng.randrange(3)
            if self.chance(self.rate):
                self.faults["late"] += 1
                wait = self.rng.randrange(3, 40)
            self.air.append((wait, to, sender, data))
        if self.chance(self.rate / 4):
            self.old.append((to, sender, data))

    def step(self):
        """One time step: messages that are due arrive, in any order."""
        if self.old and self.chance(self.rate):
            self.faults["arrived again"] += 1
            to, sender, data = self.rng.choice(self.old)
            self.air.append((0, to, sender, data))
        self.rng.shuffle(self.air)
        due = [message for message in self.air if message[0] <= 0]
        self.air = [(wait - 1, *rest) for wait, *rest in self.air if wait > 0]
        for _, to, sender, data in due:
            if to is not None:
                self.told(to, data)
            else:
                self.guarded(self.heard, sender, data)
