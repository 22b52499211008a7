"""Which node of Flower is which client, and which clients are asked in a round."""

from __future__ import annotations

import time

import numpy as np
from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid

from fedswe.availability import Availability
from fedswe.availability.model import Population
from fedswe.availability.schedule import Schedule
from fedswe.core import keys
from fedswe.errors import require
from fedswe.flower.federation import Federation
from fedswe.flower.mod import KEY
from fedswe.flower.replies import LOG, matched, one_line


class Nodes:
    """A client is known to the federation by its name: the one it says, or else the id of its node."""

    def __init__(
        self, federation: Federation, least: int, ask: bool, availability: Availability | None, seed: int
    ) -> None:
        """`least`: how many nodes must be connected; `ask`: for their names."""
        self._federation, self._least, self._ask = federation, least, ask
        self._availability, self._seed = availability, seed
        self._schedule: Schedule | None = None
        self._names: dict[int, str] = {}  # of nodes, in the order in which they were learnt
        self.of: dict[str, int] = {}  # clients that are connected, and their nodes
        self.available: list[str] = []  # of these, those that take part

    def asked(self, grid: Grid, fraction: float, least: int, t: int, stream: str) -> list[str]:
        """The clients that are asked in round t: this fraction of those that are there, and at least so many.

        As in Flower, it waits until enough nodes are connected.
        """
        while len(nodes := list(grid.get_node_ids())) < max(least, self._least):
            LOG.info("Waiting for nodes to connect: %s of %s", len(nodes), max(least, self._least))
            time.sleep(1)
        if stream != "evaluate" or not self._names:  # a silent node would be waited for twice
            self._learn([node for node in sorted(nodes) if node not in self._names], grid)
        connected, federation = set(nodes), self._federation
        self.of = {name: node for node, name in self._names.items() if node in connected}  # of two, the newer node
        there = self.of.keys() - federation.removed
        if federation.t and there and not there & federation.members.keys():
            LOG.warning("no client of the store is there, all are new: nodes keep their ids by keys, or use names=True")
        m, (joined, refused) = federation.m, federation.enrol(there)
        if joined:
            LOG.info("%s clients join in round %s, m is %s", len(joined), federation.t + 1, federation.m)
        for name in refused:
            LOG.warning("client %s is not asked: the rule keeps updates of %s clients, start with members=", name, m)
        names = sorted(there & federation.members.keys(), key=self._number)
        if self._availability is not None:
            names = self._available(names, t, self._availability)
        self.available = names
        size = max(int(len(names) * fraction), least)
        if size < len(names):
            draws = self.draws(names, t, stream)
            names = sorted(sorted(names, key=draws.__getitem__)[:size], key=self._number)
        return names

    def draws(self, names: list[str], t: int, stream: str) -> dict[str, float]:
        """A random number for each client."""
        numbers = np.array([self._number(name) for name in names], dtype=np.int64)
        return dict(zip(names, keys.uniform(self._seed, stream, t, numbers).tolist(), strict=True))

    def _number(self, name: str) -> int:
        return self._federation.members[name].number

    def _available(self, names: list[str], t: int, availability: Availability) -> list[str]:
        if self._schedule is None:
            first = sum(not member.joined for member in self._federation.members.values())
            self._schedule = availability.schedule(Population(max(first, self._federation.least)), self._seed)
        rounds = self._schedule.rounds
        require(rounds is None or t < rounds, f"the availability has {rounds} rounds: num_rounds must not be larger")
        there = self._schedule.sample(t)
        inside = [name for name in names if self._number(name) < len(there)]
        known = bool(inside) or not names
        require(known, f"the availability has {len(there)} clients, all others are new: use names=True")
        return [name for name in inside if there[self._number(name)]]

    def _learn(self, new: list[int], grid: Grid) -> None:
        """The names of new nodes. One that does not answer takes no part, and is asked again in the next round."""
        if not self._ask:
            self._names |= {node: str(node) for node in new}
            return
        question = RecordDict({KEY: ConfigRecord({"who": True})})
        asked = {str(node): Message(question, node, MessageType.TRAIN) for node in new}
        replies = grid.send_and_receive(list(asked.values()), timeout=60) if asked else []
        for node, content in matched(replies, asked)[0].items():
            told = content.config_records.get(KEY, ConfigRecord())
            name = one_line(told.get("client", ""))[:100] or node
            if name in self._names.values():
                LOG.warning("client %s is node %s now: of two nodes with one name the newer one is asked", name, node)
            self._names[int(node)] = name
        for silent in set(new) - self._names.keys():
            LOG.warning("node %s does not say its name: names=True needs ClientApp(mods=[fedswe.flower.mod])", silent)
