"""How recipes speak of cells."""

from __future__ import annotations

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


def lengths(cells: list[Cell], measured: Measurements) -> list[str]:
    """A note where runs were shorter than the scale says."""
    short = {
        (cell.dataset, rounds, full)
        for cell in cells
        if (rounds := measured.rounds(cell))
        and rounds != (full := Cell(**{**cell.coordinates(), "rounds": 0}).experiment().rounds)
    }
    return [f"{dataset}: {rounds} rounds instead of {full}" for dataset, rounds, full in sorted(short)]
