"""The available clients of every round, from a table in a file or in memory."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from fedswe.availability.model import Population, Recorded
from fedswe.availability.schedule import Bools, Floats, Schedule
from fedswe.errors import require

if TYPE_CHECKING:
    from fedswe.availability.table import Table


@dataclass(frozen=True)
class Mask(Recorded):
    """A table of 0 and 1 (or true and false), one row per round, one column per client.

    The file is text with any separator, with or without header and index column; or .npy, .npz, Parquet. In Python,
    Mask.from_array takes an array, a tensor, lists or a data frame.
    """

    file: str = ""  # path of the table: 1 where a client is available, 0 where it is not
    prob_file: str = ""  # table of probabilities, one row for each round or one for all; fedavg_known needs it
    key: str = ""  # name of the array in file, if that is an .npz with several
    prob_key: str = ""  # name of the array in prob_file, if that is an .npz with several
    orient: Literal["", "rounds", "clients"] = ""  # what the rows are; empty: rounds, but refused where it is unclear

    title: ClassVar[str] = "the available clients of each round, from a table"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.file or self.digest, "availability.file is missing: give the path of a table of 0 and 1")
        require(not (self.digest and (self.file or self.prob_file)), "with a digest, give no file and no prob_file")
        require(not (self.prob_file and self.prob == "estimate"), 'prob_file and prob = "estimate" exclude each other')

    @classmethod
    def from_array(cls, array: Any, probabilities: Any = None, **keys: Any) -> Self:
        """A mask from an array, a tensor, nested lists or a data frame: a row per round, a column per client.

        `probabilities` has a row for each round, or one for all. `keys` are parameters such as prob="estimate"; with
        orient="clients", rows and columns of both are exchanged.
        """
        from fedswe.availability.table import table_of

        orient = keys.pop("orient", "")
        mask = table_of(array, "the array of Mask.from_array", orient)
        named = "probabilities of Mask.from_array"
        prob = None if probabilities is None else table_of(probabilities, named, orient)
        require(prob is None or keys.get("prob") != "estimate", 'probabilities and prob="estimate" exclude each other')
        content = Tables(mask, prob)
        content.check()
        return cls._holding(content.digest(), content, keys)

    def rounds(self) -> int:
        return len(self._tables().mask.values)

    def clients(self) -> int:
        return int(self._tables().mask.values.shape[1])

    def schedule(self, who: Population, seed: int) -> Schedule:
        tables = self._tables()
        tables.mask.require_clients(who.m)
        tables.check()
        unknown = np.full((1, who.m), np.nan)
        rows = Rows(tables.mask.values.astype(bool), tables.prob.values if tables.prob else unknown)
        return self._checked(rows, tables.mask.name)

    def _tables(self) -> Tables:
        if self.digest:
            found: Tables = self._content()
            return found
        from fedswe.availability.table import read_table

        mask = read_table(self.file, "availability.file", self.key, "availability.key", self.orient)
        if not self.prob_file:
            return Tables(mask, None)
        prob = read_table(self.prob_file, "availability.prob_file", self.prob_key, "availability.prob_key", self.orient)
        return Tables(mask, prob)


@dataclass(frozen=True, eq=False)
class Tables:
    """A mask and, if they are known, its probabilities."""

    mask: Table
    prob: Table | None

    def check(self) -> None:
        """Refuse values that are no mask or no probabilities."""
        mask, prob = self.mask, self.prob
        mask.require_everywhere((mask.values == 0) | (mask.values == 1), "must hold only 0 and 1")
        if prob is None:
            return
        prob.require_clients(mask.values.shape[1])
        prob.require_everywhere((prob.values >= 0) & (prob.values <= 1), "must hold probabilities within [0, 1]")
        found, rounds = len(prob.values), len(mask.values)
        require(found in (1, rounds), f"{prob.name} has {found} rows: give one row, or {rounds} like {mask.name}")
        impossible = (mask.values > 0) & ~(prob.values > 0)
        require(not impossible.any(), f"{prob.name} gives probability 0 to a client that {mask.name} has available")

    def digest(self) -> str:
        content = hashlib.sha256()
        for part in filter(None, (self.mask, self.prob)):
            content.update(f"{part.values.shape}".encode() + part.values.tobytes())
        return content.hexdigest()


class Rows:
    """The rows of a table, replayed."""

    def __init__(self, mask: Bools, prob: Floats) -> None:
        self.length, self.m = mask.shape
        self.rounds: int | None = self.length
        self._mask, self._prob = mask, prob

    def prob(self, t: int) -> Floats:
        return np.asarray(self._prob[0 if len(self._prob) == 1 else t])

    def sample(self, t: int) -> Bools:
        return np.asarray(self._mask[t])

    def available_rounds(self, first: int, after: int) -> Floats:
        """In how many of the rounds `first` to `after` - 1 each client is available."""
        return np.asarray(self._mask[first:after].sum(axis=0, dtype=np.float64))
