"""Table 7: the first round to reach a test accuracy."""

from __future__ import annotations

import math

import numpy as np

from fedswe.reproduce.cell import Cell
from fedswe.reproduce.choice import CONFERENCE, DATASETS, Choice
from fedswe.reproduce.measurements import Measurements
from fedswe.reproduce.published import look_up
from fedswe.reproduce.recipe import Recipe, Report
from fedswe.reproduce.recipes.words import label, remarks
from fedswe.reproduce.tables import Line, Measured, VerdictTable

# Percent; easier steps for CIFAR-10 and CINIC-10, as in the paper.
_TARGETS = {"svhn": (20, 40, 60, 80), "cifar10": (15, 30, 45, 60), "cinic10": (10, 20, 30, 40)}
_OTHER = (20, 40, 60, 80)


def targets_of(dataset: str) -> tuple[int, ...]:
    return _TARGETS.get(dataset, _OTHER)


def first_round(cell: Cell, measured: Measurements, target: float) -> Measured | None:
    """Of the curve averaged over seeds, as the paper does; infinite if it never gets there."""
    runs = measured.of(cell)
    if not runs:
        return None
    column = f"{cell.judged_by}_test_accuracy"
    curve = np.mean([run.history[column] for run in runs], axis=0)
    reached = runs[0].history["round"][curve >= target / 100]
    return Measured(float(reached[0]) if len(reached) else math.inf, None, len(runs))


def _lines(choice: Choice) -> list[Cell]:
    return [choice.cell(d, "sine", row) for d in choice.datasets_of(DATASETS) for row in CONFERENCE]


def _report(choice: Choice, measured: Measurements) -> Report:
    tables = []
    for dataset in choice.datasets_of(DATASETS):
        targets = targets_of(dataset)
        cells = [cell for cell in _lines(choice) if cell.dataset == dataset]
        lines = []
        for cell in cells:
            k = {"k": cell.k} if cell.algorithm == "fedswe" else {}
            paper = [look_up("table7", dataset=dataset, algorithm=cell.algorithm, target=t, **k) for t in targets]
            ours = tuple(first_round(cell, measured, target) for target in targets)
            lines.append(Line((label(cell),), ours, tuple(None if p is None else p.values["rounds"] for p in paper)))
        notes = [f"sine; judged every {cells[0].experiment().evaluate.every} rounds", *remarks(cells, measured)]
        tables.append(
            VerdictTable(
                f"Table 7: first round to reach a test accuracy, {dataset}",
                ("algorithm",),
                tuple(f"{target} %" for target in targets),
                lines,
                choice.profile,
                notes,
                unit="rounds",
            )
        )
    return Report(tables)


SLOWDOWN = Recipe("slowdown-table", "Table 7", "rounds to reach a test accuracy", _lines, _report)
