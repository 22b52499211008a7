"""The numbers the paper prints, as printed: Tables 2, 7, 8, 9, and what the text says in numbers of its figures."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from fedswe.errors import require
from fedswe_paper.tables import Measured

TABLES = ("table2", "table7", "table8", "table9", "figures")
SEEDS = 3  # of the paper


@dataclass(frozen=True)
class Published:
    """One row: what names it, as text (k is empty where there is none), and its numbers by column."""

    keys: Mapping[str, str]
    values: Mapping[str, Measured]  # "train" and "test" in %, "rounds" (infinite: never reached), or "value"


def look_up(table: str, **keys: str | float) -> Published | None:
    """The row with these keys, where k counts for FedSWE only; None where the paper has no such row.

    Keys that the table does not have are left aside: all coordinates of a cell can be given.
    """
    rows = published(table)
    if keys.get("algorithm") != "fedswe":
        keys["k"] = ""
    missing = [name for name in rows[0].keys if name not in keys]
    require(not missing, f"{table} of the paper is looked up by {', '.join(missing)}, too")
    wanted = {name: _written(keys[name]) for name in rows[0].keys}
    return next((row for row in rows if {n: _written(value) for n, value in row.keys.items()} == wanted), None)


@cache
def published(table: str) -> tuple[Published, ...]:
    """All rows of one table, in the paper's order."""
    require(table in TABLES, f"there is no {table} of the paper here: choose {', '.join(TABLES)}")
    text = (files(__package__) / f"{table}.csv").read_text(encoding="utf-8")
    return tuple(_row(cells) for cells in csv.DictReader(text.splitlines()))


def _row(cells: dict[str, str]) -> Published:
    values = {}
    for name in ("rounds", "value", "train", "test"):
        if (mean := cells.pop(f"{name}_mean", cells.pop(name, None))) is not None:
            std = cells.pop(f"{name}_std", None)
            values[name] = Measured(float(mean or "inf"), float(std) if std else None, SEEDS)
    return Published(cells, values)


def _written(value: str | float) -> str:
    """One spelling per key, so that 0.1, "0.10" and "0.1" find the same row."""
    try:
        return f"{float(value):g}"
    except ValueError:
        return str(value)
