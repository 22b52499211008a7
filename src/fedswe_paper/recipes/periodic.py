"""Figures 6 to 12: two groups that take turns, and what k does for FedSWE there. All share one set of cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fedswe.plotting import Panel, Series, curves
from fedswe_paper.cell import Dynamics, PaperCell
from fedswe_paper.charts import against_k
from fedswe_paper.illustrations import alternating_groups
from fedswe_paper.measurements import Measurements, all_or_nan, summary
from fedswe_paper.recipe import Page, Recipe
from fedswe_paper.recipes.divergence import divergence_tables
from fedswe_paper.recipes.labels import label, remarks, seeds_named
from fedswe_paper.selection import PERIODIC, Row, Selection
from fedswe_paper.tables import Line, VerdictTable

BASELINES: tuple[Row, ...] = tuple(
    (name, 0.0) for name in ("fedavg", "gfedavg", "fedavg_known", "fedau", "mifa", "fedvarp")
)
_SETS = ("svhn", "cifar10")


def sweep(selection: Selection, dataset: str, dynamics: Dynamics) -> list[PaperCell]:
    """FedSWE for every k."""
    return [selection.cell(dataset, dynamics, row) for row in [("fedswe", k) for k in selection.scale.ks]]


def rivals(selection: Selection, dataset: str, dynamics: Dynamics) -> list[PaperCell]:
    """The six baselines, and FedSWE with k = 0 and k = 100."""
    rows: list[Row] = [("fedswe", 0.0), ("fedswe", 100.0), *BASELINES]
    return [selection.cell(dataset, dynamics, row) for row in rows]


Pick = Callable[[Selection, str, Dynamics], list[PaperCell]]


def _places(selection: Selection, papers: tuple[str, ...]) -> list[tuple[str, Dynamics]]:
    return [(dataset, d) for dataset in selection.datasets_of(papers) for d in PERIODIC]


def _lines(pick: Pick, papers: tuple[str, ...]) -> Callable[[Selection], list[PaperCell]]:
    return lambda selection: [cell for place in _places(selection, papers) for cell in pick(selection, *place)]


def _curve(cell: PaperCell, measured: Measurements, column: str, factor: float = 1.0) -> list[Series]:
    """It ends where a run diverged, which the chart is told by infinite values."""
    runs = measured.of(cell)
    if not runs:
        return []
    seeds = []
    for run in runs:
        values = factor * run.curve(column)
        values[run.finite_rows :] = np.inf
        seeds.append(values)
    return [Series(label(cell), runs[0].history["round"].tolist(), seeds)]


def _consensus(selection: Selection, measured: Measurements) -> Page:
    panels, tables = [], []
    for dataset, dynamics in _places(selection, _SETS):
        cells = sweep(selection, dataset, dynamics)
        tables += divergence_tables(cells, measured, f"{dataset}, {dynamics}", selection.profile)
        series = [s for cell in cells for s in _curve(cell, measured, "consensus_clients")]
        panels.append(Panel(f"{dataset}, {dynamics}", series, r"$(1/m)\,\Sigma\,\|x_i - \bar{x}\|^2$", log=True))
    cells = _lines(sweep, _SETS)(selection)
    charts = {"consensus": curves(panels, ordered=True), "dynamics": alternating_groups()}
    return Page(tables, charts, remarks(cells, measured))


def _accuracy_curves(papers: tuple[str, ...]) -> Callable[[Selection, Measurements], Page]:
    def report(selection: Selection, measured: Measurements) -> Page:
        panels, tables = [], []
        for dataset, dynamics in _places(selection, papers):
            cells = rivals(selection, dataset, dynamics)
            for output in ("server", "client_mean"):
                column = f"{output}_test_accuracy"
                series = [s for cell in cells for s in _curve(cell, measured, column, 100)]
                panels.append(Panel(f"{dataset}, {dynamics}, {output.replace('_', ' ')}", series, "test accuracy, %"))
            tables += _final(selection, measured, cells, f"{dataset}, {dynamics}")
            tables += divergence_tables(cells, measured, f"{dataset}, {dynamics}", selection.profile)
        return Page(
            tables, {"test-accuracy": curves(panels)}, _sampling(selection, _lines(rivals, papers)(selection), measured)
        )

    return report


def _sampling(selection: Selection, cells: list[PaperCell], measured: Measurements) -> list[str]:
    """Notes on how often the curves are evaluated: always in one phase of the period, and in all phases at the end."""
    runs = [run.cell for cell in cells for run in measured.of(cell)]
    judged = {(cell.dataset, e.every, e.tail, e.tail_every) for cell in runs if (e := cell.experiment().evaluate)}
    notes = []
    for dataset, every, tail, tail_every in sorted(judged):
        note = f"{dataset}: judged every {every} rounds, in the last {tail} every {tail_every}"
        if every % selection.scale.period == 0:
            note += "; before these always in the same phase, so that curves show the swing between the groups at "
            note += "their end only"
        notes.append(note)
    return notes


def _final(selection: Selection, measured: Measurements, cells: list[PaperCell], where: str) -> list[VerdictTable]:
    """The paper shows curves only; the numbers at their end, at both models, for every method.

    A table for each length of the runs, the longest first: rows of different lengths cannot be ranked.
    """
    lengths = sorted({rounds for cell in cells for rounds in measured.rounds(cell)}, reverse=True)
    if len(lengths) < 2:
        return [_final_table(selection, measured, cells, where)]
    return [
        _final_table(selection, measured, [replace(cell, rounds=rounds) for cell in cells], f"{where}, {rounds} rounds")
        for rounds in lengths
    ]


def _final_table(selection: Selection, measured: Measurements, cells: list[PaperCell], where: str) -> VerdictTable:
    """Where rows have different seeds, also with those that all of them have: only these can be ranked."""
    outputs = ("server", "client_mean")
    common = measured.common_seeds(cells)
    uneven = bool(common) and any(0 < len(measured.scored(cell)) != len(common) for cell in cells)
    lines = []
    for cell in cells:
        values = [measured.score(cell, "test_accuracy", output) for output in outputs]
        if uneven:
            by_seed = [measured.scores(cell, "test_accuracy", output) for output in outputs]
            values += [summary([each[seed] for seed in common if seed in each]) for each in by_seed]
        lines.append(Line((label(cell),), tuple(values), (None,) * len(values)))
    columns = tuple(output.replace("_", " ") for output in outputs)
    if uneven:
        columns += tuple(f"{column}, {seeds_named(common)}" for column in columns)
    tail = selection.scale.periodic_tail
    notes = [f"mean over all phases of the last {tail} rounds", *remarks(cells, measured)]
    return VerdictTable(f"Final test accuracy, {where}", ("algorithm",), columns, lines, selection.profile, notes)


_BEFORE_NAN = "a round that a run reached before it ended in NaN is shown, and decides no claim"


def _by_k(
    papers: tuple[str, ...],
    y: str,
    values: Callable[[Selection, Measurements, PaperCell], dict[int, float]],
    of_diverged: str = "",
) -> Callable[[Selection, Measurements], Page]:
    def report(selection: Selection, measured: Measurements) -> Page:
        panels, tables, notes = [], [], []
        shown: list[PaperCell] = []
        for dataset, dynamics in _places(selection, papers):
            cells = measured.alike([cell for cell in sweep(selection, dataset, dynamics) if measured.of(cell)])
            tables += divergence_tables(cells, measured, f"{dataset}, {dynamics}", selection.profile)
            found = [values(selection, measured, cell) for cell in cells]
            common = sorted(set.intersection(*map(set, found))) if found else []
            points = [all_or_nan([each[seed] for seed in common]) for each in found]
            series = [Series.by_x("FedSWE", [cell.k for cell in cells], points)] if common else []
            panels.append(Panel(f"{dataset}, {dynamics}", series, y, x="k"))
            if common:
                notes.append(f"{dataset}, {dynamics}: {seeds_named(common)}, which every k has")
            shown += cells
        notes += remarks(shown, measured)
        if of_diverged and any(run.diverged for cell in shown for run in measured.of(cell)):
            notes.append(of_diverged)
        return Page(tables, {"by-k": against_k(panels, selection.scale.clients)}, notes)

    return report


def _accuracy_of(_: Selection, measured: Measurements, cell: PaperCell) -> dict[int, float]:
    return measured.scores(cell, "test_accuracy")


def _rounds_of(selection: Selection, measured: Measurements, cell: PaperCell) -> dict[int, float]:
    return measured.rounds_to(cell, selection.scale.target)


def _recipes() -> list[Recipe]:
    made = [Recipe("fig6", "Figure 6", "consensus error for several k", _lines(sweep, _SETS), _consensus)]
    for dataset, first in (("svhn", 7), ("cifar10", 10)):
        papers = (dataset,)
        accuracy, rounds = "test accuracy, %", "rounds to the target accuracy"
        made += [
            Recipe(
                f"fig{first}",
                f"Figure {first}",
                f"test accuracy in turns of two groups, {dataset}",
                _lines(rivals, papers),
                _accuracy_curves(papers),
            ),
            Recipe(
                f"fig{first + 1}",
                f"Figure {first + 1}",
                f"final test accuracy against k, {dataset}",
                _lines(sweep, papers),
                _by_k(papers, accuracy, _accuracy_of),
            ),
            Recipe(
                f"fig{first + 2}",
                f"Figure {first + 2}",
                f"rounds to a test accuracy against k, {dataset}",
                _lines(sweep, papers),
                _by_k(papers, rounds, _rounds_of, _BEFORE_NAN),
            ),
        ]
    return made


PERIODIC_RECIPES = _recipes()
