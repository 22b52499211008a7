"""Flower as a transport: packets as Flower messages, and which Flower node is which client.

Flower's strategies are not used: they have no third phase for the deliveries, cannot resume, and wait without limit for
absent clients.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Literal

import numpy as np
from flwr.app import ArrayRecord, Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid

from fedswe.deploy.flower import node_keys
from fedswe.deploy.log_file import log
from fedswe.deploy.packet import Packet
from fedswe.deploy.transport import Arrival, Kind
from fedswe.errors import FedsweError, require

MESSAGE_TYPES = {"job": "train", "delivery": "query.deliver", "hello": "query.hello"}  # hello: which client are you?
_NPY_HEADER = 1024  # bytes; numpy writes 128 for an array of bytes
_LIST_INTERVAL = 1.0  # seconds between two requests to Flower for the connected nodes


def wrap(data: bytes) -> RecordDict:
    """Bytes as an array, which Flower sends in chunks: their size has no limit but Flower's own."""
    return RecordDict({"packet": ArrayRecord([np.frombuffer(data, dtype=np.uint8)])})


def unwrap(message: Message, limit: int) -> bytes:
    """The bytes in a message; a FedsweError if there are none, or more than `limit`. They are copied once."""
    try:
        (array,) = message.content.array_records["packet"].values()
        require(len(array.data) <= limit + _NPY_HEADER, f"a message of {len(array.data)} bytes, the limit is {limit}")
        file = BytesIO(array.data)
        require(np.lib.format.read_magic(file) == (1, 0), "a message whose packet is not an array")
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        require(dtype == np.uint8 and len(shape) == 1, "a message whose packet is not bytes")
        data = file.read()
        require(shape == (len(data),), "a message whose packet is incomplete")
    except FedsweError:
        raise
    except Exception as error:  # numpy parses untrusted data here, and can fail in many ways, also for lack of memory
        raise FedsweError(f"a message without a packet ({type(error).__name__})") from None
    return data


@dataclass(frozen=True)
class _Sent:
    node: int
    kind: Kind | Literal["hello"]
    round: int
    until: float  # time after which no answer is expected


class FlowerTransport:
    def __init__(self, grid: Grid, nodes: Nodes, deadline: float, limit: int) -> None:
        """A message that Flower cannot deliver within `deadline` seconds is dropped; larger answers are not read."""
        self._grid, self._nodes, self._deadline, self._limit = grid, nodes, deadline, limit
        self._open: dict[str, _Sent] = {}  # message id -> message without an answer so far
        self._refused: list[_Sent] = []
        self._unidentified: set[int] = set()  # nodes that were reported in the log
        self._listed = 0.0

    def connected(self) -> Mapping[int, int]:
        """client -> node."""
        if time.monotonic() - self._listed > _LIST_INTERVAL:
            for node in self._nodes.update(self._grid.get_nodes()):
                self._push(node, "hello", 0, RecordDict())
            self._listed = time.monotonic()
        return self._nodes.connected()

    def send(self, kind: Kind, round: int, packets: Mapping[int, Packet]) -> None:
        nodes = self._nodes.connected()
        for client, packet in packets.items():  # one by one: models may be large, and Flower limits a request
            if client in nodes:
                self._push(nodes[client], kind, round, wrap(packet.to_bytes()))

    def poll(self, timeout: float) -> Iterator[Arrival]:
        answers = list(self._answers())
        if not answers:
            time.sleep(timeout)
        for sent, message, failure in answers:
            if sent.kind == "hello":
                self._identify(sent.node, message, failure)
                continue
            client = self._nodes.client(sent.node)
            assert client is not None  # messages are sent to known clients only
            if message is not None:
                yield Arrival(client, sent.kind, sent.round, self._packet(message))
            elif self.connected().get(client) == sent.node:  # otherwise the client has reconnected, and is asked again
                yield Arrival(client, sent.kind, sent.round, None, failure)

    def _push(self, node: int, kind: Kind | Literal["hello"], t: int, content: RecordDict) -> None:
        sent = _Sent(node, kind, t, time.monotonic() + self._deadline)
        message = Message(content, node, MESSAGE_TYPES[kind], ttl=self._deadline)
        if name := next(iter(self._grid.push_messages([message])), None):
            self._open[name] = sent
        else:  # too large, or the node has just disconnected
            self._refused.append(sent)

    def _answers(self) -> Iterator[tuple[_Sent, Message | None, str]]:
        """Answers and failures since the last call."""
        refused, self._refused = self._refused, []
        for sent in refused:
            yield sent, None, "Flower did not take the message"
        now = time.monotonic()
        for name in [name for name, sent in self._open.items() if sent.until <= now]:
            yield self._open.pop(name), None, "no answer before the deadline"
        for message in self._grid.pull_messages(list(self._open)) if self._open else ():
            answered = self._open.pop(message.metadata.reply_to_message_id, None)
            if answered is None:
                continue
            if message.has_error():
                yield answered, None, message.error.reason or f"error {message.error.code}"
            else:
                yield answered, message, ""

    def _packet(self, message: Message) -> bytes:
        try:
            return unwrap(message, self._limit)
        except FedsweError:
            return b""  # which the server rejects and counts

    def _identify(self, node: int, answer: Message | None, failure: str) -> None:
        """Process a node's answer to hello."""
        if answer is None:
            if node not in self._unidentified:  # it is asked again and again, and logged once
                log.warning("node %d does not say which client it is: %s", node, failure)
            self._unidentified.add(node)
            self._nodes.ask_again(node)
            return
        try:
            claimed = answer.content.config_records["hello"]["client"]
        except Exception:  # an answer without content, or of another form
            claimed = None
        self._nodes.identify(node, claimed)
        if self._nodes.client(node) is None:
            log.warning("node %d says it is client %.20a of %d", node, claimed, self._nodes.m)


class Nodes:
    """Which node is which client: by its key with authentication; otherwise by its own claim, the latest one counts."""

    def __init__(self, m: int, keys: Sequence[bytes | None] | None) -> None:
        """`keys`: one per client, None for a client without one; None instead of a list: no authentication."""
        self.m, self._online = m, set[int]()
        self._by_key = None if keys is None else {key: client for client, key in enumerate(keys) if key is not None}
        self._strangers: set[int] = set()  # nodes with a key of no client, which were reported in the log
        self._clients: dict[int, int] = {}  # node -> client, in the order of identification; offline nodes too
        self._asked: set[int] = set()

    @classmethod
    def of_app(cls, folder: Path, m: int) -> Nodes:
        """With authentication if the app has a clients.toml, which lists one public key per client in their order."""
        path = folder / node_keys.FILE
        if not path.is_file():
            return cls(m, None)
        keys = node_keys.read_keys(folder)
        require(len(keys) == m, f"{path} has {len(keys)} keys for {m} clients: give one per client")
        return cls(m, keys)

    def update(self, nodes: Iterable[NodeInfo]) -> list[int]:
        """Set the nodes that are online; returns those that must be asked which client they are."""
        keys = {node.node_id: node.public_key for node in nodes}
        self._online = set(keys)
        if self._by_key is not None:
            self._clients |= {node: self._by_key[key] for node, key in keys.items() if key in self._by_key}
            self._report_strangers(keys)
            return []
        unknown = [node for node in keys if node not in self._clients and node not in self._asked]
        self._asked.update(unknown)
        return unknown

    def _report_strangers(self, keys: Mapping[int, bytes]) -> None:
        """Name each node once that the SuperLink admits and that is no client; it gets no jobs."""
        for node in keys.keys() - self._clients.keys() - self._strangers:
            self._strangers.add(node)
            log.warning(
                "node %d with the key %.20s... is no client of this run and gets no jobs: its key is not in the "
                "clients.toml that was submitted; give it to a client and submit again, or remove it with "
                "`fedswe deploy keys sync`",
                node,
                node_keys.fingerprint(keys[node]),
            )

    def identify(self, node: int, client: object) -> None:
        """Take a node's claim to be a client, unless nodes are known by their keys or there is no such client."""
        if self._by_key is None and isinstance(client, int) and 0 <= client < self.m:
            self._clients.pop(node, None)
            self._clients[node] = client

    def ask_again(self, node: int) -> None:
        """The question or its answer was lost."""
        self._asked.discard(node)

    def client(self, node: int) -> int | None:
        """The client of a node, also of one that is offline."""
        return self._clients.get(node)

    def connected(self) -> dict[int, int]:
        """client -> node, of the nodes online."""
        return {client: node for node, client in self._clients.items() if node in self._online}
