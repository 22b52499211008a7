"""How recipes speak of cells."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fedswe.algorithms import ALGORITHMS
from fedswe_paper.cell import PaperCell
from fedswe_paper.measurements import Measurements
from fedswe_paper.readings import READINGS

_SHORT = {
    "fedavg": "FedAvg, active",
    "fedavg_all": "FedAvg, all",
    "fedavg_known": "FedAvg, known p",
    "gfedavg": "gFedAvg",
}


def label(cell: PaperCell) -> str:
    """The method as a table names it, and how it is read where not by default."""
    name = _SHORT.get(cell.algorithm, ALGORITHMS[cell.algorithm].__name__)
    k = [f"k = {cell.k:g}"] * (cell.algorithm == "fedswe")
    read = [READINGS[cell.reading].label] if cell.reading else []
    return ", ".join([name, *k, *read])


def remarks(cells: Iterable[PaperCell], measured: Measurements) -> list[str]:
    """What a reader of these runs must know: where they are shorter than the scale says, and which blew up."""
    runs = [run for cell in dict.fromkeys(cells) for run in measured.scored(cell)]
    lengths = {
        (c.dataset, c.experiment().rounds, replace(c, rounds=0).experiment().rounds) for c in (r.cell for r in runs)
    }
    short = [(dataset, rounds, full) for dataset, rounds, full in sorted(lengths) if rounds != full]
    lost = [run.cell.name for run in runs if run.diverged]
    return [
        *(f"{dataset}: {rounds} rounds instead of {full}" for dataset, rounds, full in short),
        *[f"ended in NaN, and so always name the first class: {', '.join(lost)}"] * bool(lost),
    ]
