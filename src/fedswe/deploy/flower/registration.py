"""The keys that a SuperLink knows, and making them those of clients.toml. Keys are compared, not counted."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from flwr.proto.control_pb2 import ListNodesRequest, RegisterNodeRequest, UnregisterNodeRequest
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.error import FlowerError
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

from fedswe.errors import FedsweError, require

_UNREGISTERED = "unregistered"


@dataclass(frozen=True)
class Connection:
    """Where the Control API of a SuperLink is; without `authority`, a certificate file, there is no TLS."""

    address: str
    authority: Path | None

    @classmethod
    def named(cls, home: Path, name: str) -> Connection:
        """A connection of the config.toml in FLWR_HOME."""
        path = home / "config.toml"
        try:
            table = tomllib.loads(path.read_text())["superlink"][name]
            address, authority = table["address"], table.get("root-certificates")
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise FedsweError(
                f"{path} has no section [superlink.{name}] with an address: name the connection with --superlink, "
                "and the folder of config.toml with the variable FLWR_HOME"
            ) from None
        require(
            isinstance(address, str) and isinstance(authority, str | None),
            f"{path}: address and root-certificates of [superlink.{name}] must be texts",
        )
        return cls(str(address), home / authority if authority else None)

    @contextmanager
    def open(self) -> Iterator[ControlHttpClient]:
        """Requests to the Control API; an error says in one line that the SuperLink does not answer or refuses."""
        try:
            authority = self.authority.read_bytes() if self.authority else None
            with ControlHttpClient.from_server_address(
                self.address,
                self.authority is None,
                authority,
                interceptors=[RuntimeVersionHttpInterceptor(component_name="flwr CLI")],
            ) as client:
                yield client
        except httpx.HTTPStatusError as error:
            told = FlowerError.from_json(error.response.text)
            reason = told.message if told else f"status {error.response.status_code}"
            raise FedsweError(f"the SuperLink at {self.address} refuses: {reason}") from None
        except (httpx.HTTPError, OSError, ValueError) as error:
            if isinstance(error, FedsweError):
                raise
            raise FedsweError(
                f"the SuperLink at {self.address} does not answer ({error}): is it running, and is this its address?"
            ) from None


@dataclass(frozen=True)
class Registered:
    """A node that a SuperLink knows. Flower keeps the keys of unregistered nodes, and takes none of them again."""

    node: int
    key: bytes
    status: str  # registered (never connected), online, offline, unregistered

    @property
    def admitted(self) -> bool:
        return self.status != _UNREGISTERED


def registered(connection: Connection) -> list[Registered]:
    with connection.open() as client:
        return _nodes(client)


@dataclass(frozen=True)
class Changes:
    """What `synchronise` did: clients whose keys were registered or cannot be, nodes that were unregistered."""

    added: tuple[int, ...]
    removed: tuple[int, ...]
    unusable: tuple[int, ...]


def synchronise(connection: Connection, keys: Sequence[bytes | None]) -> Changes:
    """Register the keys of clients that the SuperLink does not know, and unregister all other keys."""
    wanted = {key: client for client, key in enumerate(keys) if key is not None}
    with connection.open() as client:
        known = _nodes(client)
        removed = [node.node for node in known if node.admitted and node.key not in wanted]
        for node in removed:
            client.UnregisterNode(UnregisterNodeRequest(node_id=node))
        status = {node.key: node.admitted for node in known}
        added = {key: number for key, number in wanted.items() if key not in status}
        for key in added:
            client.RegisterNode(RegisterNodeRequest(public_key=key))
    unusable = [number for key, number in wanted.items() if status.get(key) is False]
    return Changes(tuple(added.values()), tuple(removed), tuple(unusable))


def _nodes(client: ControlHttpClient) -> list[Registered]:
    found: Sequence[NodeInfo] = client.ListNodes(ListNodesRequest()).nodes_info
    return [Registered(info.node_id, info.public_key, info.status) for info in found]
