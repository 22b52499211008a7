"""Table 7: the first round to reach a test accuracy."""

from __future__ import annotations

import math

import numpy as np

from fedswe_paper.cell import PaperCell
from fedswe_paper.measurements import Measurements, regular
from fedswe_paper.publish import Page, Recipe
from fedswe_paper.published import look_up
from fedswe_paper.recipes.labels import label, remarks
from fedswe_paper.selection import CONFERENCE, DATASETS, Selection
from fedswe_paper.tables import Line, Measured, VerdictTable

# Percent; easier steps for CIFAR-10 and CINIC-10, as in the paper.
_TARGETS = {"svhn": (20, 40, 60, 80), "cifar10": (15, 30, 45, 60), "cinic10": (10, 20, 30, 40)}
_OTHER = (20, 40, 60, 80)


def targets_of(dataset: str) -> tuple[int, ...]:
    return _TARGETS.get(dataset, _OTHER)


def first_round(cell: PaperCell, measured: Measurements, target: float, output: str | None = None) -> Measured | None:
    """Of the curve averaged over seeds, as the paper does; infinite if never, NaN if a run diverged before."""
    runs = measured.of(cell)
    if not runs:
        return None
    curve = np.mean([run.curve(f"{output or cell.judged_by}_test_accuracy") for run in runs], axis=0)
    rounds = runs[0].history["round"]
    reached = rounds[(curve >= target / 100) & np.isin(rounds, [row["round"] for row in regular(runs[0])])]
    never = math.nan if any(run.diverged for run in runs) else math.inf
    return Measured(float(reached[0]) if len(reached) else never, None, len(runs))


def _lines(selection: Selection) -> list[PaperCell]:
    return selection.lines(DATASETS, ["sine"], CONFERENCE)


def _report(selection: Selection, measured: Measurements) -> Page:
    tables = []
    for dataset in selection.datasets_of(DATASETS):
        targets, lines = targets_of(dataset), []
        cells = [cell for cell in _lines(selection) if cell.dataset == dataset]
        for cell in cells:
            paper = [look_up("table7", dataset=dataset, algorithm=cell.algorithm, target=t, k=cell.k) for t in targets]
            ours = tuple(first_round(cell, measured, target) for target in targets)
            lines.append(Line((label(cell),), ours, tuple(row.values["rounds"] if row else None for row in paper)))
        notes = [f"sine; judged every {cells[0].experiment().evaluate.every} rounds", *remarks(cells, measured)]
        title = f"Table 7: first round to reach a test accuracy, {dataset}"
        columns = tuple(f"{target} %" for target in targets)
        tables.append(VerdictTable(title, ("algorithm",), columns, lines, selection.profile, notes, "rounds"))
    return Page(tables)


SLOWDOWN = Recipe("slowdown-table", "Table 7", "rounds to reach a test accuracy", _lines, _report)
