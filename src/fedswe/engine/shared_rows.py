"""Vectors of m clients in which equal vectors that came from one reply are stored once.

FedSWE's x_i only ever equals a past server model, so m clients need as many rows as there are distinct
rounds of last report: a million clients may need the memory of only a thousand models.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from fedswe.availability.schedule import Floats
from fedswe.core.records import Vector, to_device
from fedswe.engine.work import Ids


class SharedRows:
    """Columns of one vector per client, all kept in one table of distinct rows with reference counts.

    Writing a vector without a client axis stores it once for all its clients, and once for all columns that are
    given the very same tensor one after the other.
    """

    def __init__(self, m: int, start: Mapping[str, Vector], weights: Floats | None = None) -> None:
        """`weights` of the clients in means."""
        self._weights = weights
        one = next(iter(start.values()))
        self.slots: dict[str, Ids] = {}
        self.uses = np.zeros(1, dtype=np.int64)
        self.table = torch.zeros(1, one.shape[-1], dtype=one.dtype, device=one.device)
        self._newest: tuple[Vector, int] | None = None
        self._means: dict[str, Vector] = {}  # of columns that have not changed since: several outputs may ask for one
        for name, vector in start.items():
            self.slots[name] = np.full(m, -1)
            self.write(name, np.arange(m), vector)

    def read(self, name: str, ids: Ids) -> Vector:
        """The rows of the given clients, [n, d]."""
        return self.table[to_device(self.slots[name][ids], self.table.device)]

    def write(self, name: str, ids: Ids, value: Vector) -> None:
        """Give the clients their new rows: one each [n, d], or one for all of them [d]."""
        if not len(ids):
            return
        self._means.pop(name, None)
        old = self.slots[name][ids]
        np.subtract.at(self.uses, old[old >= 0], 1)
        if value.ndim == 1:
            slot = self._shared(value)
            self.slots[name][ids] = slot
            self.uses[slot] += len(ids)
        else:
            slots = self._free(len(ids))
            self.table[to_device(slots, self.table.device)] = value
            self.slots[name][ids] = slots
            self.uses[slots] += 1

    def _shared(self, value: Vector) -> int:
        if self._newest is not None and self._newest[0] is value and self.uses[self._newest[1]] > 0:
            return self._newest[1]
        slot = int(self._free(1)[0])
        self.table[slot] = value
        self._newest = (value, slot)
        return slot

    def _free(self, n: int) -> Ids:
        """The n lowest unused slots; the table doubles when there are not enough."""
        free = np.flatnonzero(self.uses == 0)
        if len(free) < n:
            grow = max(len(self.uses), n - len(free))
            self.uses = np.concatenate([self.uses, np.zeros(grow, dtype=np.int64)])
            self.table = torch.cat([self.table, self.table.new_zeros(grow, self.table.shape[1])])
            free = np.flatnonzero(self.uses == 0)
        if self._newest is not None and self._newest[1] in free[:n]:
            self._newest = None  # its row is about to hold something else
        return free[:n]

    def mean(self, name: str) -> Vector:
        """The mean over all clients of one column, from its distinct rows."""
        if name not in self._means:
            counts = np.bincount(self.slots[name], self._weights)
            used = np.flatnonzero(counts)
            weights = torch.as_tensor(counts[used] / counts.sum()).to(self.table)
            self._means[name] = weights @ self.table[torch.as_tensor(used, device=self.table.device)]
        return self._means[name]

    def state(self) -> dict[str, torch.Tensor]:
        top = int(np.flatnonzero(self.uses)[-1]) + 1
        slots = {f"slots.{name}": torch.as_tensor(s) for name, s in self.slots.items()}
        return {"rows": self.table[:top], **slots}

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        self.table = state["rows"].to(self.table)
        self.slots = {name: state[f"slots.{name}"].numpy().copy() for name in self.slots}
        self.uses = np.zeros(len(self.table), dtype=np.int64)
        for slots in self.slots.values():
            self.uses += np.bincount(slots, minlength=len(self.uses))
        self._newest, self._means = None, {}
