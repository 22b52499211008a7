"""What the server knows of its clients: when each was last merged, what it must start from, and its state."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch

from fedswe.core.records import Vector, parts
from fedswe.deploy.codec import encode
from fedswe.deploy.ledger import Entry
from fedswe.deploy.protocol import NEVER, RunProtocol
from fedswe.deploy.server_files import ServerFiles


class ClientTable:
    def __init__(self, protocol: RunProtocol, store: ServerFiles) -> None:
        self._protocol, self._files = protocol, store
        self.last: dict[int, int] = {}  # tau_i of the clients that were merged at least once
        self._replies: dict[int, str] = {}  # digests of the replies of those rounds
        self.holds: dict[int, str] = {}  # what clients say they keep; after a restart nobody has said anything

    def note(self, entry: Entry) -> None:
        """Take in a committed round."""
        self.last |= dict.fromkeys(entry.merged, entry.t)
        self._replies[entry.t] = entry.reply
        referenced = set(self.last.values())
        self._replies = {t: name for t, name in self._replies.items() if t in referenced}

    def merged(self, client: int) -> int:
        """tau_i."""
        return self.last.get(client, NEVER)

    def base(self, client: int) -> str:
        """The name of what the client must start from."""
        if not self._protocol.rebuilds:
            return ""
        return self._replies[self.last[client]] if client in self.last else self._protocol.start_digest

    def lacks(self, client: int) -> bool:
        """Whether the base must travel with the next job: a client is trusted to know x^0 until it asks."""
        held = self.holds.get(client, self._protocol.start_digest)
        return self._protocol.rebuilds and held != self.base(client)

    def attachment(self, client: int) -> dict[str, torch.Tensor]:
        """The base itself."""
        merged = self.merged(client)
        return {"start": self._protocol.start} if merged == NEVER else encode("reply", self._reply(merged))

    def state(self, client: int) -> Any:
        """The client's state, from its row or from the reply it was given."""
        protocol, merged = self._protocol, self.merged(client)
        if merged == NEVER or not parts(protocol.client):
            return protocol.client
        if protocol.home == "server":
            return self._files.row(client, merged, protocol.client)
        return protocol.settled(protocol.start, merged, self._reply(merged))

    def mean(self) -> Vector:
        """The mean over all clients of the model each last received: x^0, or that of its last merged round."""
        start = self._protocol.start
        mean = start.double() * (self._protocol.m - len(self.last))
        for t, clients in sorted(Counter(self.last.values()).items()):
            mean += clients * self._files.received(t).to(mean)
        return (mean / self._protocol.m).to(start.dtype)

    def _reply(self, t: int) -> Any:
        return self._files.reply(t, self._protocol.reply)
