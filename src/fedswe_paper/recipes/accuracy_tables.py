"""Tables 2, 8 and 9: train and test accuracy by algorithm, and what they vary."""

from __future__ import annotations

from collections.abc import Sequence

from fedswe_paper.cell import PaperCell
from fedswe_paper.measurements import Measurements
from fedswe_paper.published import look_up
from fedswe_paper.recipe import Page, Recipe
from fedswe_paper.recipes.labels import label, remarks
from fedswe_paper.selection import CONFERENCE, DATASETS, ROWS, STEADY, Selection
from fedswe_paper.tables import Line, Measured, VerdictTable

GAMMAS = (0.3, 0.2, 0.1)
ALPHAS = (0.05, 0.1, 1.0)


def _main_lines(selection: Selection) -> list[PaperCell]:
    return [
        selection.cell(dataset, dynamics, row)
        for dataset in selection.datasets_of(DATASETS)
        for dynamics in STEADY
        for row in ROWS
    ]


def accuracy_line(cell: PaperCell, keys: tuple[str, ...], measured: Measurements, table: str, **by: float) -> Line:
    k = {"k": cell.k} if cell.algorithm == "fedswe" else {}
    paper = look_up(table, dataset=cell.dataset, dynamics=cell.dynamics, algorithm=cell.algorithm, **k, **by)
    ours = tuple(measured.score(cell, f"{part}_accuracy") for part in ("train", "test"))
    published: tuple[Measured | None, ...] = (None, None)
    if paper is not None:
        published = paper.values["train"], paper.values["test"]
    return Line(keys, ours, published)


def accuracy_table(
    selection: Selection,
    title: str,
    names: tuple[str, ...],
    lines: list[Line],
    measured: Measurements,
    cells: list[PaperCell],
    more: Sequence[str] = (),
) -> Page:
    """A report of one table; `more` are notes of its own."""
    judged = "FedSWE judged by the mean of the clients' models" if selection.profile == "released" else "server models"
    notes = [f"{judged}; mean of the last {selection.scale.tail} rounds", *more, *remarks(cells, measured)]
    return Page([VerdictTable(title, names, ("train", "test"), lines, selection.profile, notes)])


def _main_report(selection: Selection, measured: Measurements) -> Page:
    cells = _main_lines(selection)
    lines = [accuracy_line(c, (c.dataset, c.dynamics, label(c)), measured, "table2") for c in cells]
    return accuracy_table(
        selection,
        "Table 2: accuracy by data set and dynamics",
        ("data", "dynamics", "algorithm"),
        lines,
        measured,
        cells,
    )


def _varied(recipe: str, number: int, key: str, values: tuple[float, ...], what: str) -> Recipe:
    """A table of the conference version: SVHN under the sine, with one of its parameters varied."""

    def lines(selection: Selection) -> list[PaperCell]:
        return [
            selection.cell(dataset, "sine", row, **{key: value})
            for dataset in selection.datasets_of(["svhn"])
            for value in values
            for row in CONFERENCE
        ]

    def report(selection: Selection, measured: Measurements) -> Page:
        cells = lines(selection)
        rows = []
        for cell in cells:
            value = getattr(cell, key)
            rows.append(accuracy_line(cell, (f"{value:g}", label(cell)), measured, f"table{number}", **{key: value}))
        return accuracy_table(
            selection, f"Table {number}: accuracy by {what}", (key, "algorithm"), rows, measured, cells
        )

    return Recipe(recipe, f"Table {number}", f"accuracy by {what}", lines, report)


MAIN = Recipe("main-table", "Table 2", "accuracy of ten methods under three dynamics", _main_lines, _main_report)
GAMMA = _varied("gamma-table", 8, "gamma", GAMMAS, "the depth gamma of the sine")
ALPHA = _varied("alpha-table", 9, "alpha", ALPHAS, "heterogeneity alpha")
