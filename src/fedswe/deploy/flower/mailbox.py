"""Messages out and answers in, by the server's own clock."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

INTERVAL = 0.2  # seconds between looks into the mailbox; Flower's own loop takes 3


@dataclass(frozen=True)
class Sent:
    node: int
    kind: str
    round: int
    until: float  # after this nobody waits for the answer


@dataclass(frozen=True)
class Arrival:
    """An answer to a message of that kind and round."""

    node: int
    kind: str
    round: int
    message: Message | None  # None: there will be no answer
    failure: str = ""  # why not, in Flower's words


class Mailbox:
    def __init__(self, grid: Grid, patience: float) -> None:
        self._grid, self._patience = grid, patience
        self._open: dict[str, Sent] = {}
        self._refused: list[Sent] = []

    def send(self, kind: str, t: int, to: Mapping[int, RecordDict]) -> None:
        """One message to each node; not delivered within the deadline, it never will be."""
        until = time.monotonic() + self._patience
        for node, content in to.items():  # one by one: models may be large, and Flower bounds a request
            sent, message = Sent(node, kind, t, until), Message(content, node, kind, ttl=self._patience)
            if name := next(iter(self._grid.push_messages([message])), None):
                self._open[name] = sent
            else:  # too large, or the node has just left
                self._refused.append(sent)

    def arrivals(self) -> Iterator[Arrival]:
        """What has come since the last look; a short sleep when that is nothing."""
        refused, self._refused = self._refused, []
        for sent in refused:
            yield Arrival(sent.node, sent.kind, sent.round, None, "Flower did not take the message")
        now = time.monotonic()
        for name in [name for name, sent in self._open.items() if sent.until <= now]:
            sent = self._open.pop(name)
            yield Arrival(sent.node, sent.kind, sent.round, None, "no answer in time")
        messages = list(self._grid.pull_messages(list(self._open))) if self._open else []
        if not messages:
            time.sleep(INTERVAL)
        for message in messages:
            answered = self._open.pop(message.metadata.reply_to_message_id, None)
            if answered is None:
                continue
            if message.has_error():
                failure, reply = message.error.reason or f"error {message.error.code}", None
            else:
                failure, reply = "", message
            yield Arrival(answered.node, answered.kind, answered.round, reply, failure)
