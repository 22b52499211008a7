"""What the SuperLink's side runs: rounds by the server's own clock, over Flower's Grid.

Flower's strategies are not used: they have no third phase for the postponed multicast, cannot resume, and wait without
bound for clients that are away.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

from flwr.app import Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

from fedswe.deploy.flower.evaluation import Evaluation
from fedswe.deploy.flower.mailbox import Arrival, Mailbox
from fedswe.deploy.flower.messages import (
    DELIVER,
    HELLO,
    TRAIN,
    deployment_of,
    folder_named,
    overrides_of,
    unwrapped,
    wrapped,
)
from fedswe.deploy.flower.nodes import Nodes
from fedswe.deploy.packet import Packet
from fedswe.deploy.server import ServerEndpoint
from fedswe.errors import FedsweError
from fedswe.results.provenance import provenance
from fedswe.results.run_directory import RunDirectory

log = logging.getLogger("fedswe.deploy")

LOG = "server.log"
_LOOK_AROUND = 1.0  # seconds between questions to Flower who is connected


def server_app(folder: Path) -> ServerApp:
    """The ServerApp of the app in `folder`."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        deployment = deployment_of(folder, overrides_of(context))
        directory = folder_named("run-dir", context.run_config.get("run-dir"))
        server = ServerEndpoint.open(directory, deployment)
        logging.getLogger("fedswe.deploy").addHandler(complaints := _complaints(directory))
        try:
            # Without the command line, on which Flower hands a ServerApp its token.
            origin = {key: value for key, value in provenance().items() if key != "command"}
            RunDirectory(directory).note({**origin, "flwr": version("flwr")})
            evaluation = Evaluation(directory, server)
            nodes = (
                Nodes.of_app(folder, server.m) if context.run_config.get("trust-keys", True) else Nodes(server.m, None)
            )
            rounds = Rounds(grid, server, nodes, deployment.deadline, deployment.min_clients)
            while not server.finished:
                rounds.play(evaluation.after_round)
        finally:
            server.release()
            logging.getLogger("fedswe.deploy").removeHandler(complaints)
            complaints.close()

    return app


def _complaints(directory: Path) -> logging.Handler:
    """What went wrong at the server, in server.log: Flower keeps a ServerApp's output in its database."""
    handler = logging.FileHandler(directory / LOG)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    return handler


class Rounds:
    def __init__(self, grid: Grid, server: ServerEndpoint, known: Nodes, deadline: float, quorum: int) -> None:
        self._grid, self._server, self._nodes = grid, server, known
        self._deadline, self._quorum = deadline, quorum
        self._post = Mailbox(grid, deadline)
        self._looked, self._silent = 0.0, set[int]()

    def play(self, committed: Callable[[], None]) -> None:
        """One round: jobs out, reports in until all have answered or the time is up, merge, and the multicast.

        `committed` is called while the multicast is on its way.
        """
        while len(self._connected()) < self._quorum:
            self._take_in(HELLO, 0)
        t = self._server.t
        self._gather(t)
        deliveries, nodes = self._server.close(), self._connected()
        self._send(DELIVER, t, deliveries, nodes)
        committed()
        ends, waiting = time.monotonic() + self._deadline, set(deliveries)
        while waiting and time.monotonic() < ends:
            waiting -= self._take_in(DELIVER, t)
            now = self._connected()
            waiting = {client for client in waiting if client in now and now[client] == nodes.get(client)}

    def _gather(self, t: int) -> None:
        """Ask all who are connected, also those who come late or come back, until nobody is waited for."""
        ends = time.monotonic() + self._deadline
        asked: dict[int, int] = {}  # client -> the node it was asked at
        waiting, done = set[int](), set[int]()
        while time.monotonic() < ends:
            connected = self._connected()
            asked = {client: node for client, node in asked.items() if connected.get(client) == node}
            if new := [client for client in connected if client not in asked and client not in done]:
                jobs = self._server.jobs(new)
                self._send(TRAIN, t, jobs, connected)
                asked |= {client: connected[client] for client in new}
                waiting |= jobs.keys()
            waiting = (waiting - done) & connected.keys()
            if asked and not waiting:
                return
            done |= self._take_in(TRAIN, t)
        for client in sorted(waiting - done):  # Flower drops what comes later: nothing else would name them
            log.warning("round %d: client %d did not answer within %g s", t, client, self._deadline)

    def _take_in(self, kind: str, t: int) -> set[int]:
        """Hand what has arrived to the server; the clients that are done with the present question.

        An answer to an earlier question, or the failure of a node that has been replaced, says nothing about that.
        """
        done = set[int]()
        for arrival in self._post.arrivals():
            if arrival.kind == HELLO:
                self._introduced(arrival)
                continue
            client, present = self._nodes.client(arrival.node), (arrival.kind, arrival.round) == (kind, t)
            assert client is not None  # only clients are written to
            if arrival.message is None:
                if present and self._connected().get(client) == arrival.node:
                    log.warning("round %d: client %d failed: %s", t, client, arrival.failure)
                    done.add(client)
            elif (answer := self._server.receive(client, _packet(arrival.message))) is not None:
                self._send(TRAIN, t, {client: answer}, self._connected())  # the same job with what the client lacks
            elif present:
                done.add(client)
        return done

    def _introduced(self, arrival: Arrival) -> None:
        if arrival.message is None:
            if arrival.node not in self._silent:  # it will be asked again and again, and named once
                log.warning("node %d does not say which client it is: %s", arrival.node, arrival.failure)
            self._silent.add(arrival.node)
            self._nodes.ask_again(arrival.node)
            return
        hello = arrival.message.content.config_records.get("hello")
        claimed = hello.get("client") if hello else None
        self._nodes.introduce(arrival.node, claimed)
        if self._nodes.client(arrival.node) is None:
            log.warning("node %d calls itself client %.20a of %d", arrival.node, claimed, self._server.m)

    def _connected(self) -> dict[int, int]:
        if time.monotonic() - self._looked > _LOOK_AROUND:
            unknown = self._nodes.see(self._grid.get_nodes())
            self._post.send(HELLO, 0, {node: RecordDict() for node in unknown})
            self._looked = time.monotonic()
        return self._nodes.connected()

    def _send(self, kind: str, t: int, packets: Mapping[int, Packet], nodes: Mapping[int, int]) -> None:
        there = {nodes[client]: packet for client, packet in packets.items() if client in nodes}
        self._post.send(kind, t, {node: wrapped(packet.to_bytes()) for node, packet in there.items()})


def _packet(message: Message) -> bytes:
    try:
        return unwrapped(message)
    except FedsweError:
        return b""  # which the server rejects and counts
