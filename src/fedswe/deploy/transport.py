"""What carries messages between the server and its clients. Implement it to run the rounds over a network of your own.

A transport may lose, delay, repeat and reorder messages. It does not have to check what it carries: the server checks
every packet. It must tell which client an answer is from; that is what its authentication is for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from fedswe.deploy.packet import Packet

Kind = Literal["job", "delivery"]


@dataclass(frozen=True)
class Arrival:
    """A client's answer to one message, or the failure of that message."""

    client: int
    kind: Kind  # of the message that is answered
    round: int  # of the message that is answered
    packet: bytes | None  # the answer; None: there will be none
    failure: str = ""  # why not, for the log


class Transport(Protocol):
    """The server's side. At a client, give each message to ``ClientEndpoint.handle`` and send back what it returns."""

    def connected(self) -> Mapping[int, int]:
        """The connected clients, each with a number of its connection.

        The number changes when a client was restarted and has forgotten the messages sent to it before; it is then
        asked again in the same round. Use 0 for all clients if that cannot happen.
        """
        ...

    def send(self, kind: Kind, round: int, packets: Mapping[int, Packet]) -> None:
        """Send each packet (``Packet.to_bytes``) to its client, without waiting for answers.

        What cannot be sent is reported by `poll` as a failure, or dropped: the server waits until the deadline.
        """
        ...

    def poll(self, timeout: float) -> Iterable[Arrival]:
        """Answers and failures that have arrived; waits at most `timeout` seconds if there are none yet."""
        ...
