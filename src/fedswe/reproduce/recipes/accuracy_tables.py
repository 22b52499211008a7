"""Tables 2, 8 and 9: train and test accuracy by algorithm, and what they vary."""

from __future__ import annotations

from collections.abc import Sequence

from fedswe.reproduce.cell import Cell
from fedswe.reproduce.choice import CONFERENCE, DATASETS, ROWS, STEADY, Choice
from fedswe.reproduce.measurements import Measurements
from fedswe.reproduce.published import look_up
from fedswe.reproduce.recipe import Recipe, Report
from fedswe.reproduce.recipes.words import label, remarks
from fedswe.reproduce.tables import Line, Measured, VerdictTable

GAMMAS = (0.3, 0.2, 0.1)
ALPHAS = (0.05, 0.1, 1.0)


def _main_lines(choice: Choice) -> list[Cell]:
    return [
        choice.cell(dataset, dynamics, row)
        for dataset in choice.datasets_of(DATASETS)
        for dynamics in STEADY
        for row in ROWS
    ]


def accuracy_line(cell: Cell, keys: tuple[str, ...], measured: Measurements, table: str, **by: float) -> Line:
    k = {"k": cell.k} if cell.algorithm == "fedswe" else {}
    paper = look_up(table, dataset=cell.dataset, dynamics=cell.dynamics, algorithm=cell.algorithm, **k, **by)
    ours = tuple(measured.score(cell, f"{part}_accuracy") for part in ("train", "test"))
    published: tuple[Measured | None, ...] = (None, None)
    if paper is not None:
        published = paper.values["train"], paper.values["test"]
    return Line(keys, ours, published)


def accuracy_table(
    choice: Choice,
    title: str,
    names: tuple[str, ...],
    lines: list[Line],
    measured: Measurements,
    cells: list[Cell],
    more: Sequence[str] = (),
) -> Report:
    """A report of one table; `more` are notes of its own."""
    judged = "FedSWE judged by the mean of the clients' models" if choice.profile == "released" else "server models"
    notes = [f"{judged}; mean of the last {choice.scale.tail} rounds", *more, *remarks(cells, measured)]
    return Report([VerdictTable(title, names, ("train", "test"), lines, choice.profile, notes)])


def _main_report(choice: Choice, measured: Measurements) -> Report:
    cells = _main_lines(choice)
    lines = [accuracy_line(c, (c.dataset, c.dynamics, label(c)), measured, "table2") for c in cells]
    return accuracy_table(
        choice, "Table 2: accuracy by data set and dynamics", ("data", "dynamics", "algorithm"), lines, measured, cells
    )


def _varied(recipe: str, number: int, key: str, values: tuple[float, ...], what: str) -> Recipe:
    """A table of the conference version: SVHN under the sine, with one of its parameters varied."""

    def lines(choice: Choice) -> list[Cell]:
        return [
            choice.cell(dataset, "sine", row, **{key: value})
            for dataset in choice.datasets_of(["svhn"])
            for value in values
            for row in CONFERENCE
        ]

    def report(choice: Choice, measured: Measurements) -> Report:
        cells = lines(choice)
        rows = []
        for cell in cells:
            value = getattr(cell, key)
            rows.append(accuracy_line(cell, (f"{value:g}", label(cell)), measured, f"table{number}", **{key: value}))
        return accuracy_table(choice, f"Table {number}: accuracy by {what}", (key, "algorithm"), rows, measured, cells)

    return Recipe(recipe, f"Table {number}", f"accuracy by {what}", lines, report)


MAIN = Recipe("main-table", "Table 2", "accuracy of ten methods under three dynamics", _main_lines, _main_report)
GAMMA = _varied("gamma-table", 8, "gamma", GAMMAS, "the depth gamma of the sine")
ALPHA = _varied("alpha-table", 9, "alpha", ALPHAS, "heterogeneity alpha")
