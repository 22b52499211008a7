"""A deployment within one process, to test an app: same messages, same files, no network."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path

from fedswe.deploy.client import ClientEndpoint
from fedswe.deploy.deployment import Deployment
from fedswe.deploy.packet import Packet
from fedswe.deploy.protocol import RunProtocol
from fedswe.deploy.rounds import Rounds
from fedswe.deploy.server import ServerEndpoint
from fedswe.deploy.transport import Arrival, Kind
from fedswe.results.history import History
from fedswe.tasks.problem import Problem


class InMemoryTransport:
    """Clients in this process. Change `online` between rounds to let clients leave and return."""

    def __init__(self, deployment: Deployment, directory: Path | str, problem: Problem | None = None) -> None:
        """The clients store their state in `directory`."""
        self._directory = Path(directory)
        self._problem = deployment.problem() if problem is None else problem
        self._protocol = RunProtocol(deployment, self._problem)
        self.clients = {client: self.open_client(client) for client in range(self._problem.m)}
        self.online = set(self.clients)
        self._sent: deque[tuple[int, Kind, int, Packet]] = deque()  # not encoded: packets share their vectors

    def open_client(self, client: int) -> ClientEndpoint:
        return ClientEndpoint.of_run(self._directory, self._protocol, client, self._problem)

    def connected(self) -> Mapping[int, int]:
        return dict.fromkeys(sorted(self.online), 0)

    def send(self, kind: Kind, round: int, packets: Mapping[int, Packet]) -> None:
        self._sent.extend((client, kind, round, packet) for client, packet in packets.items())

    def poll(self, timeout: float) -> Iterator[Arrival]:
        """Let the clients answer, one after the other."""
        if not self._sent:
            time.sleep(timeout)
        for _ in range(len(self._sent)):
            client, kind, t, packet = self._sent.popleft()
            if client not in self.online:
                continue  # the message is lost
            yield Arrival(client, kind, t, self.clients[client].handle(packet.to_bytes()).to_bytes())


def run_in_memory(deployment: Deployment, directory: Path | str) -> History:
    """Run a deployment with all its clients in this process, or resume it; the clients' state is in `clients/`."""
    folder, problem = Path(directory), deployment.problem()
    with ServerEndpoint.open(folder, deployment, problem) as server:
        return Rounds(server, InMemoryTransport(deployment, folder / "clients", problem)).run()
