"""Availability read from a file: the available clients of every round."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from fedswe.availability.model import Availability, Population
from fedswe.availability.schedule import Bools, Floats, Schedule
from fedswe.errors import FedsweError, require


@dataclass(frozen=True)
class Mask(Availability):
    """A CSV of 0 and 1 without header, one row per round, one column per client."""

    file: str = ""  # path of the CSV: 1 where a client is available, 0 where it is not
    prob_file: str = ""  # CSV of probabilities, one row for each round or one for all; fedavg_known needs it

    title: ClassVar[str] = "the available clients of each round, from a file"

    def __post_init__(self) -> None:
        require(self.file, "availability.file is missing: give the path of the CSV of 0 and 1")

    def rounds(self) -> int:
        return len(read_table(self.file, "availability.file"))

    def schedule(self, who: Population, seed: int) -> Schedule:
        mask = read_table(self.file, "availability.file", who.m)
        outside = mask[(mask != 0) & (mask != 1)]
        require(
            outside.size == 0,
            f"{self.file} must hold only 0 and 1, found {outside.flat[0] if outside.size else ''}",
        )
        prob = np.full((1, who.m), np.nan)
        if self.prob_file:
            prob = read_table(self.prob_file, "availability.prob_file", who.m)
            require(((prob >= 0) & (prob <= 1)).all(), f"{self.prob_file} must hold probabilities within [0, 1]")
            require(
                len(prob) in (1, len(mask)),
                f"{self.prob_file} has {len(prob)} rows: give one row, or {len(mask)} like {self.file}",
            )
            impossible = (mask > 0) & ~(prob > 0)
            require(
                not impossible.any(),
                f"{self.prob_file} gives probability 0 to a client that {self.file} has available",
            )
        return Rows(mask.astype(bool), prob)


def read_table(path: str, key: str, columns: int | None = None) -> Floats:
    """A CSV of numbers, one column per client; `columns` says how many there must be."""
    if not Path(path).is_file():
        raise FedsweError(f"{key}: there is no file {path}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # numpy warns about an empty file, which is refused below
            table = np.loadtxt(path, delimiter=",", ndmin=2, dtype=np.float64, encoding="utf-8-sig")
    except (ValueError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise FedsweError(f"{key}: {path} is not a CSV of numbers, rows of equal length ({reason})") from None
    require(table.size, f"{key}: {path} is empty")
    require(
        columns in (None, table.shape[1]),
        f"{key}: {path} has {table.shape[1]} columns for {columns} clients: give one column per client",
    )
    return table


class Rows:
    """The rows of a table, replayed."""

    def __init__(self, mask: Bools, prob: Floats) -> None:
        self.m: int = mask.shape[1]
        self.rounds: int | None = len(mask)
        self._mask, self._prob = mask, prob

    def prob(self, t: int) -> Floats:
        row: Floats = self._prob[0 if len(self._prob) == 1 else t]
        return row

    def sample(self, t: int) -> Bools:
        row: Bools = self._mask[t]
        return row
