"""Tables for places where runs ended in NaN: all rows before that, and the same runs with bounded gradients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedswe_paper.cell import PaperCell
from fedswe_paper.measurements import Measurements, summary
from fedswe_paper.recipes.labels import label, last_finite
from fedswe_paper.results import FinishedRun
from fedswe_paper.tables import Line, Measured, Unit, VerdictTable

_EVALUATIONS = 10  # before the first NaN, to average over
_ACCURACY = ("server_test_accuracy", "client_mean_test_accuracy")


def divergence_tables(
    cells: Sequence[PaperCell], measured: Measurements, where: str, profile: str
) -> list[VerdictTable]:
    """None where no run diverged."""
    runs = {cell: measured.of(cell) for cell in cells}
    lost = [run for found in runs.values() for run in found if run.diverged]
    if not lost:
        return []
    until = min(last_finite(run) for run in lost)
    columns = ("server", "client mean")
    accuracy = [_line(cell, runs[cell], _ACCURACY, until, 100.0) for cell in cells]
    errors = [_line(cell, runs[cell], ("consensus_clients",), until, 1.0) for cell in cells]
    notes = [f"mean of the last {_EVALUATIONS} evaluations at which every run is finite, until round {until}"]
    before = f"before the first NaN, {where}"
    tables = [
        _table(f"Test accuracy {before}", columns, accuracy, profile, notes),
        _table(f"Consensus error {before}", ("error",), errors, profile, notes, "error"),
    ]
    every = (run for found in runs.values() for run in found)
    bounded = [(run, twin) for run in every if (twin := measured.bounded(run)) is not None]
    if bounded:
        lines = [
            Line((f"{label(run.cell)}, seed {run.cell.seed}",), _scores(twin), (None,) * len(columns))
            for run, twin in bounded
        ]
        limits = sorted({f"{twin.bound:g}" for _, twin in bounded})
        note = f"every stochastic gradient bounded to a norm of {', '.join(limits)}, unlike in the paper: in no verdict"
        title = f"Runs repeated with bounded gradients, {where}"
        tables.append(_table(title, columns, lines, profile, [note]))
    return tables


def _line(cell: PaperCell, runs: list[FinishedRun], columns: Sequence[str], until: int, factor: float) -> Line:
    values: list[Measured | None] = []
    for column in columns:
        by_seed = []
        for run in runs:
            there = run.history["round"] <= until
            by_seed.append(factor * float(np.mean(run.history[column][there][-_EVALUATIONS:])))
        values.append(summary(by_seed))
    return Line((label(cell),), tuple(values), (None,) * len(columns))


def _scores(run: FinishedRun) -> tuple[Measured | None, ...]:
    return tuple(summary([run.score("test_accuracy", output)]) for output in ("server", "client_mean"))


def _table(
    title: str, columns: tuple[str, ...], lines: list[Line], profile: str, notes: list[str], unit: Unit = "%"
) -> VerdictTable:
    return VerdictTable(title, ("algorithm",), columns, lines, profile, notes, unit)
