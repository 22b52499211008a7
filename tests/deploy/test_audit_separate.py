"""Both halves of the audit with the data in separate places: real processes of different users, none of whom can read
the files of another.
"""

import multiprocessing
import os
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from fedswe.deploy import Arrival, ClientEndpoint, Deployment, Rounds, ServerEndpoint, ledger
from fedswe.deploy.audit.verify import verify, verify_client
from fedswe.tasks.custom import CustomTask
from tests.deploy.parts import Network
from tests.deploy.parts import deployment as made
from tests.deploy.storm import in_memory

SERVER, CLIENTS = 65520, (65521, 65522)
fork = multiprocessing.get_context("fork")  # the other users need not be able to read this installation


@dataclass(frozen=True)
class Sites(CustomTask):
    """Client i reads its samples from site-i."""

    folder: str = ""

    title: ClassVar[str] = "samples that stay where they are"

    def network(self):
        return nn.Linear(4, 2)

    def load(self, client):
        with np.load(f"{self.folder}/site-{client}/data.npz") as stored:
            return torch.as_tensor(stored["x"]), torch.as_tensor(stored["y"])


class Pipes:
    def __init__(self, ends):
        self.ends = dict(enumerate(ends))

    def connected(self):
        return dict.fromkeys(self.ends, 0)

    def send(self, kind, round, packets):
        for client, packet in packets.items():
            self.ends[client].send((kind, round, packet.to_bytes()))

    def poll(self, timeout):
        ready = wait(list(self.ends.values()), timeout)
        for client, end in self.ends.items():
            if end in ready:
                yield Arrival(client, *end.recv())


def serve(folder, ends):
    with ServerEndpoint.open(folder / "server" / "run", Deployment.load(folder / "deployment.toml")) as server:
        rounds = Rounds(server, Pipes(ends))
        while not server.finished:  # not `run`, which reads the installation to note its versions
            rounds.step()
    for end in ends:
        end.send(None)


def answer(folder, client, end):
    deployment = Deployment.load(folder / "deployment.toml")
    endpoint = ClientEndpoint.open(folder / f"site-{client}" / "state", deployment, client, deployment.problem())
    while (message := end.recv()) is not None:
        kind, t, data = message
        end.send((kind, t, endpoint.handle(data).to_bytes()))


def readable(folder):
    try:
        os.listdir(folder)
    except PermissionError:
        return False
    return True


def seen_by(folder):
    places = ["server", *(f"site-{i}" for i in range(len(CLIENTS)))]
    return [place for place in places if readable(folder / place)]


def server_half(folder):
    found = verify(folder / "server" / "run")
    return seen_by(folder), found


def client_half(folder, client):
    return seen_by(folder), verify_client(
        folder / "public", client, folder / f"site-{client}" / "state", Path(__file__).parents[2]
    )


def start(user, folder, act, *arguments):
    """Run a function as another user; the process, and a pipe that brings its result."""
    here, there = fork.Pipe()

    def run():
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
        os.environ.update(HOME=str(folder), FEDSWE_LEDGER_KEY=str(folder / "server" / "ledger.key"))
        there.send(act(*arguments))

    process = fork.Process(target=run)
    process.start()
    return process, here


def result(started, seconds=120):
    process, pipe = started
    found = pipe.recv() if pipe.poll(seconds) else None
    process.join(seconds)
    assert process.exitcode == 0
    return found


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of other users")
@pytest.mark.parametrize("name", ["fedswe", "mifa"])
def test_server_and_clients_check_their_halves_without_the_data_of_others(scratch, name):
    scratch.chmod(0o711)
    random = np.random.default_rng(0)
    for user, place in zip((SERVER, *CLIENTS), ("server", "site-0", "site-1"), strict=True):
        (scratch / place).mkdir()
        if place != "server":
            x, y = random.normal(size=(20, 4)).astype(np.float32), random.integers(2, size=20)
            np.savez(scratch / place / "data.npz", x=x, y=y)
            os.chown(scratch / place / "data.npz", user, user)
        os.chown(scratch / place, user, user)
        (scratch / place).chmod(0o700)
    deployment = made(name, Sites(clients=2, folder=str(scratch)), 4, "eager", p=0.8, trail=True)
    (scratch / "deployment.toml").write_text(deployment.dump())
    with in_memory() as warm:  # imports all that the processes need
        net = Network(warm, deployment)
        net.round()
        assert verify(warm / "server").passed
    pairs = [fork.Pipe() for _ in CLIENTS]
    running = [start(SERVER, scratch, serve, scratch, [a for a, _ in pairs])]
    running += [start(user, scratch, answer, scratch, i, pairs[i][1]) for i, user in enumerate(CLIENTS)]
    for started in running:
        result(started)

    places, server = result(start(SERVER, scratch, server_half, scratch))
    assert places == ["server"]
    assert server.passed, server.failures
    assert (server.rounds, server.recomputed, server.replay, server.complete) == (4, 4, None, False)
    assert server.reports > 4

    (scratch / "public").mkdir()  # what the operator sends to the clients
    for file in (ledger.FILE, "deployment.toml"):
        (scratch / "public" / file).write_bytes((scratch / "server" / "run" / file).read_bytes())
    replayed = 0
    for i, user in enumerate(CLIENTS):
        places, client = result(start(user, scratch, client_half, scratch, i))
        assert places == [f"site-{i}"]
        assert client.passed, client.failures
        assert client.replayed == client.reports > 0
        replayed += client.replayed
    assert replayed == server.reports  # both halves together: every model follows from the data
