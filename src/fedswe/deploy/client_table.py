"""What the server knows about each client: its last merged round, the base it must start from, and its state.

The base of a client is the reply to its last merged report, or x^0 before the first. It is identified by its digest.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch

from fedswe.core.records import Vector, parts
from fedswe.deploy.exact_sum import ExactSum
from fedswe.deploy.ledger_lines import Entry
from fedswe.deploy.membership import last_after
from fedswe.deploy.packet import encode
from fedswe.deploy.protocol import NEVER, RunProtocol
from fedswe.deploy.server_files import ServerFiles


class ClientTable:
    def __init__(self, protocol: RunProtocol, files: ServerFiles) -> None:
        self._protocol, self._files = protocol, files
        self.m, self._changes = protocol.membership.m, 0  # members, and how many of them have joined or left
        self.last: dict[int, int] = {}  # tau_i of the clients that were merged at least once
        self._replies: dict[int, str] = {}  # digests of the replies of these rounds
        self.stored: dict[int, str] = {}  # digest of the base each client says it has stored; empty after a restart
        # The sum of the models that clients last received, of this table or of an earlier one, and for each round how
        # many of them have its model.
        self._summed: tuple[Counter[int], ExactSum] | None = None

    def opened(self, t: int) -> ClientTable:
        """The table when round t opens: clients have joined and left."""
        new = self
        for change in self._protocol.membership.changes[self._changes :]:
            if change.t <= t:
                new = new._with(last_after(new.last, change), new._replies)
                new._changes += 1
                new.m += 1 if change.action == "join" else -1
        return new

    def after(self, entry: Entry) -> ClientTable:
        """The table after a round. This one stays as it is: the round may not be committed."""
        table = self.opened(entry.t)
        return table._with(table.last | dict.fromkeys(entry.merged, entry.t), {**table._replies, entry.t: entry.reply})

    def _with(self, last: dict[int, int], replies: dict[int, str]) -> ClientTable:
        new, referenced = ClientTable(self._protocol, self._files), set(last.values())
        new.m, new._changes, new.last, new.stored = self.m, self._changes, last, self.stored
        new._summed = self._summed
        new._replies = {t: name for t, name in replies.items() if t in referenced}
        return new

    def merged(self, client: int) -> int:
        """tau_i."""
        return self.last.get(client, NEVER)

    def base(self, client: int) -> str:
        """The digest of the client's base."""
        if not self._protocol.needs_base:
            return ""
        return self._replies[self.last[client]] if client in self.last else self._protocol.start_digest

    def lacks_base(self, client: int) -> bool:
        """Whether the base must be attached to the next job. A client is assumed to have x^0 until it asks for it."""
        stored = self.stored.get(client, self._protocol.start_digest)
        return self._protocol.needs_base and stored != self.base(client)

    def base_arrays(self, client: int) -> dict[str, torch.Tensor]:
        """The base itself, to attach to a job."""
        merged = self.merged(client)
        return {"start": self._protocol.start} if merged == NEVER else encode("reply", self._reply(merged))

    def state(self, client: int) -> Any:
        """The client's state, read from the server's files or rebuilt from the client's last reply."""
        protocol, merged = self._protocol, self.merged(client)
        if merged == NEVER or not parts(protocol.client):
            return protocol.client
        if protocol.home == "server":
            return self._files.client_state(client, merged, protocol.client)
        return protocol.rebuilt_state(protocol.start, merged, self._reply(merged))

    def mean(self) -> Vector:
        """The mean over all members of the model each last received: x^0, or the model of its last merged round.

        Asked after every round, it costs as many models as the round has changed: the new one, and those that its
        clients had before. Otherwise the sum is made anew from all models that clients have, one at a time. Both give
        the same bits.
        """
        start = self._protocol.start
        holders = Counter(self.last.values())
        holders[NEVER] = self.m - len(self.last)
        before, summed = self._summed or (Counter[int](), ExactSum.zero(start))
        changed = {t: holders[t] - before[t] for t in sorted({*holders, *before}) if holders[t] != before[t]}
        if len(changed) > len(holders) or not all(t == NEVER or self._files.has_version(t) for t in changed):
            changed = {t: clients for t, clients in sorted(holders.items()) if clients}
            summed = ExactSum.zero(start)
        for t, times in changed.items():
            summed = summed.plus(times, start if t == NEVER else self._files.received(t).to(start.device))
        self._summed = holders, summed
        return summed.over(self.m).to(start.dtype)

    def _reply(self, t: int) -> Any:
        return self._files.reply(t, self._protocol.reply)
