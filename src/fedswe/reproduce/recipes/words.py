"""How recipes speak of cells."""

from __future__ import annotations

from collections.abc import Iterable

from fedswe.algorithms import ALGORITHMS
from fedswe.reproduce.cell import Cell
from fedswe.reproduce.measurements import Measurements
from fedswe.reproduce.readings import READINGS

_SHORT = {
    "fedavg": "FedAvg, active",
    "fedavg_all": "FedAvg, all",
    "fedavg_known": "FedAvg, known p",
    "gfedavg": "gFedAvg",
}


def label(cell: Cell) -> str:
    """The method as a table names it, and how it is read where not by default."""
    name = _SHORT.get(cell.algorithm, ALGORITHMS[cell.algorithm].__name__)
    k = [f"k = {cell.k:g}"] * (cell.algorithm == "fedswe")
    read = [READINGS[cell.reading].label] if cell.reading else []
    return ", ".join([name, *k, *read])


def remarks(cells: Iterable[Cell], measured: Measurements) -> list[str]:
    """What a reader of these runs must know: where they are shorter than the scale says, and which blew up."""
    cells = list(dict.fromkeys(cells))
    short = {
        (cell.dataset, rounds, full)
        for cell in cells
        if (rounds := measured.rounds(cell))
        and rounds != (full := Cell(**{**cell.coordinates(), "rounds": 0}).experiment().rounds)
    }
    lost = [run.cell.name for cell in cells for run in measured.of(cell) if run.diverged]
    return [
        *(f"{dataset}: {rounds} rounds instead of {full}" for dataset, rounds, full in sorted(short)),
        *[f"ended in NaN, and so always name the first class: {', '.join(lost)}"] * bool(lost),
    ]
