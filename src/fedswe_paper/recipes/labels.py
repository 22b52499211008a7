"""Labels and notes of cells in tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from fedswe.registry import resolve
from fedswe_paper.cell import PaperCell
from fedswe_paper.measurements import Measurements
from fedswe_paper.profile import READINGS

_SHORT = {
    "fedavg": "FedAvg, active",
    "fedavg_all": "FedAvg, all",
    "fedavg_known": "FedAvg, known p",
    "gfedavg": "gFedAvg",
}


def label(cell: PaperCell) -> str:
    """The method as a table names it, and how it is read where not by default."""
    parts = [_SHORT.get(cell.algorithm) or resolve("algorithm", cell.algorithm).__name__]
    if cell.algorithm == "fedswe":
        parts.append(f"k = {cell.k:g}")
    if cell.reading:
        parts.append(READINGS[cell.reading].label)
    return ", ".join(parts)


def remarks(cells: Iterable[PaperCell], measured: Measurements) -> list[str]:
    """Notes for the reader: which runs are shorter than the scale says, and which diverged."""
    runs = [run for cell in dict.fromkeys(cells) for run in measured.scored(cell)]
    lengths = Counter((run.cell.dataset, run.cell.experiment().rounds, run.cell.full_rounds) for run in runs)
    notes = []
    for (dataset, rounds, full), count in sorted(lengths.items()):
        total = sum(n for (d, _, f), n in lengths.items() if (d, f) == (dataset, full))
        part = f" in {count} of {total} runs" if count < total else ""
        notes += [f"{dataset}: {rounds} rounds instead of {full}{part}"] if rounds != full else []
    lost = [f"{run.cell.name} (finite until round {run.last_finite})" for run in runs if run.diverged]
    if lost:
        notes.append(f"ended in NaN, and have no scores: {', '.join(lost)}")
    return notes


def seeds_named(seeds: Sequence[int]) -> str:
    return f"{'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}"
