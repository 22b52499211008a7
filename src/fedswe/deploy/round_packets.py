"""The packets that the server sends in one round: jobs to the clients that are selected, and deliveries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from fedswe.core import keys
from fedswe.deploy.client_table import ClientTable
from fedswe.deploy.ledger import Ledger
from fedswe.deploy.open_round import OpenRound
from fedswe.deploy.packet import Header, Packet, arrays_digest, encode
from fedswe.deploy.protocol import RunProtocol


class RoundPackets:
    def __init__(
        self, protocol: RunProtocol, clients: ClientTable, current: OpenRound, ledger: Ledger, reached: int
    ) -> None:
        """`reached`: the most rounds that were ever committed."""
        self._protocol, self._clients, self._round, self._ledger = protocol, clients, current, ledger
        self._reached = max(reached, current.t)

    def jobs(self, connected: list[int]) -> Mapping[int, Packet]:
        """Jobs of these clients; where seats are limited, only of the lowest bidders."""
        self._round.available.update(self._protocol.available(connected, self._round.t))
        chosen = self._seated(connected)
        self._round.asked.update(chosen)
        return _Jobs(chosen, lambda client: self.job(client, self._clients.lacks_base(client)))

    def _seated(self, clients: list[int]) -> list[int]:
        """The rule of the simulator, among the connected clients (available ones, where absence is simulated)."""
        algorithm, asked, t = self._protocol.algorithm, self._round.asked, self._round.t
        if not algorithm.seats():
            return clients
        again = [i for i in clients if i in asked]
        able = [i for i in clients if i not in asked and i in self._round.available]
        free = algorithm.seats() - len(asked)
        if len(able) > free:
            views = [self._protocol.at_client(i, t) for i in able]
            bids = [float(algorithm.bid(self._clients.state(i), at)) for i, at in zip(able, views, strict=True)]
            ties = keys.uniform(self._protocol.seed, "seats", t, torch.tensor(able)).numpy()
            able = [able[j] for j in np.lexsort((ties, np.array(bids)))[:free]]
        return sorted(again + able)

    def job(self, client: int, attach_base: bool) -> Packet:
        protocol, clients, down = self._protocol, self._clients, self._round.down
        if protocol.home == "server":
            arrays = protocol.planned_job(client, self._round.t, clients.state(client), down)
            self._round.note_job(client, arrays["job.start"], arrays_digest(arrays))
        else:
            arrays = encode("down", down) | (clients.base_arrays(client) if attach_base else {})
        header: Header = {"client": client, "merged": clients.merged(client), "base": clients.base(client)}
        return self._round.count_sent(Packet("job", {**self._header(), **header}, arrays))

    def delivery(self, reply: Any, base: str) -> Packet:
        """The reply as a message of its own."""
        return Packet("delivery", {**self._header(), "base": base}, encode("reply", reply))

    def _header(self) -> Header:
        """With `head`, clients can tell later whether the ledger that they are shown is the one of this run.

        With `reached`, they know that rounds were taken back, also if the line that says so is lost.
        """
        current = self._round
        plan = self._protocol.config_digest
        names: Header = {"run": current.run, "epoch": current.epoch, "round": current.t, "plan": plan}
        return {**names, "head": self._ledger.head, "reached": self._reached}


class _Jobs(Mapping[int, Packet]):
    """Packets that are made when they are read."""

    def __init__(self, clients: list[int], job: Callable[[int], Packet]) -> None:
        self._clients, self._job = clients, job

    def __getitem__(self, client: int) -> Packet:
        if client not in self._clients:
            raise KeyError(client)
        return self._job(client)

    def __iter__(self) -> Iterator[int]:
        return iter(self._clients)

    def __len__(self) -> int:
        return len(self._clients)
