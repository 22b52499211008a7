"""A deployment within one process, to test an app: same messages, same files, no network."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from fedswe.deploy.client import ClientEndpoint
from fedswe.deploy.deployment import Deployment
from fedswe.deploy.packet import Packet
from fedswe.deploy.rounds import Rounds
from fedswe.deploy.server import ServerEndpoint
from fedswe.deploy.transport import Arrival, Kind
from fedswe.results.history import History
from fedswe.tasks.problem import Problem

log = logging.getLogger("fedswe.deploy")


class InMemoryTransport:
    """Clients in this process. Change `online` between rounds to let clients leave and return."""

    def __init__(self, deployment: Deployment, directory: Path | str, problem: Problem | None = None) -> None:
        """The clients store their state in `directory`."""
        self._deployment, self._directory = deployment, Path(directory)
        self._problem = deployment.problem() if problem is None else problem
        self.clients = {client: self.open_client(client) for client in range(self._problem.m)}
        self.online = set(self.clients)
        self._sent: list[tuple[int, Kind, int, bytes]] = []

    def open_client(self, client: int) -> ClientEndpoint:
        return ClientEndpoint.open(self._directory, self._deployment, client, self._problem)

    def connected(self) -> Mapping[int, int]:
        return dict.fromkeys(sorted(self.online), 0)

    def send(self, kind: Kind, round: int, packets: Mapping[int, Packet]) -> None:
        self._sent += [(client, kind, round, packet.to_bytes()) for client, packet in packets.items()]

    def poll(self, timeout: float) -> Iterator[Arrival]:
        """Let the clients answer, one after the other."""
        sent, self._sent = self._sent, []
        if not sent:
            time.sleep(timeout)
        for client, kind, t, data in sent:
            if client not in self.online:
                continue  # the message is lost
            try:
                answer = self.clients[client].handle(data).to_bytes()
            except Exception as error:  # of the user's task: it must not stop the server, as over a network
                log.warning("client %d failed in round %d", client, t, exc_info=True)
                yield Arrival(client, kind, t, None, repr(error))
            else:
                yield Arrival(client, kind, t, answer)


def run_in_memory(deployment: Deployment, directory: Path | str) -> History:
    """Run a deployment with all its clients in this process, or resume it; the clients' state is in `clients/`."""
    folder, problem = Path(directory), deployment.problem()
    with ServerEndpoint.open(folder, deployment, problem) as server:
        return Rounds(server, InMemoryTransport(deployment, folder / "clients", problem)).run()
