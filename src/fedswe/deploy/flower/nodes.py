"""Which node is which client."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path

from flwr.proto.node_pb2 import NodeInfo

from fedswe.deploy.flower.credentials import canonical_key
from fedswe.errors import FedsweError, require

FILE = "clients.toml"


class Nodes:
    """With authentication a node is known by its key; without, it is asked, and the last to claim a number has it."""

    def __init__(self, m: int, keys: list[bytes] | None) -> None:
        self._m, self._online = m, set[int]()
        self._by_key = None if keys is None else {key: client for client, key in enumerate(keys)}
        self._clients: dict[int, int] = {}  # node -> client, the last to be known last; also of those that are gone
        self._asked: set[int] = set()

    @classmethod
    def of_app(cls, folder: Path, m: int) -> Nodes:
        """Authenticated if the app has a clients.toml, which holds one public key per client in their order."""
        path = folder / FILE
        if not path.is_file():
            return cls(m, None)
        try:
            lines = tomllib.loads(path.read_text())["keys"]
        except (ValueError, KeyError) as error:
            raise FedsweError(f"{path} must be TOML with a list called keys ({error})") from None
        require(isinstance(lines, list), f"{path}: keys must be a list of public keys")
        require(len(lines) == m, f"{path} has {len(lines)} keys for {m} clients: give one per client")
        keys = [canonical_key(str(line)) for line in lines]
        require(len(set(keys)) == m, f"{path} has the same key twice: give every client one of its own")
        return cls(m, keys)

    def see(self, nodes: Iterable[NodeInfo]) -> list[int]:
        """Take note of who is connected; the nodes that must be asked who they are."""
        keys = {node.node_id: node.public_key for node in nodes}
        self._online = set(keys)
        if self._by_key is not None:
            self._clients |= {node: self._by_key[key] for node, key in keys.items() if key in self._by_key}
            return []
        unknown = [node for node in keys if node not in self._clients and node not in self._asked]
        self._asked.update(unknown)
        return unknown

    def introduce(self, node: int, client: object) -> None:
        """A node's answer to who it is; a number that does not exist is not taken."""
        if self._by_key is None and isinstance(client, int) and 0 <= client < self._m:
            self._clients.pop(node, None)
            self._clients[node] = client

    def ask_again(self, node: int) -> None:
        """The question or its answer was lost."""
        self._asked.discard(node)

    def client(self, node: int) -> int | None:
        """Who an answer is from, even if its sender has died since."""
        return self._clients.get(node)

    def connected(self) -> dict[int, int]:
        """client -> node, of those online."""
        return {client: node for node, client in self._clients.items() if node in self._online}
