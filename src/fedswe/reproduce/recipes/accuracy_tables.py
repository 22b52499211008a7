"""Tables 2, 8 and 9: train and test accuracy by algorithm, and what they vary."""

from __future__ import annotations

from fedswe.reproduce.cell import Cell
from fedswe.reproduce.choice import CONFERENCE, DATASETS, ROWS, STEADY, Choice
from fedswe.reproduce.measurements import Measurements
from fedswe.reproduce.published import look_up
from fedswe.reproduce.recipe import Recipe, Report
from fedswe.reproduce.recipes.words import label, lengths
from fedswe.reproduce.tables import Line, Measured, VerdictTable

GAMMAS = (0.3, 0.2, 0.1)
ALPHAS = (0.05, 0.1, 1.0)


def _main_lines(choice: Choice) -> list[Cell]:
    return [
        choice.cell(dataset, dynamics, row)
        for dataset in choice.datasets_of(DATASETS)
        for dynamics in choice.dynamics_of(STEADY)
        for row in choice.rows_of(ROWS)
    ]


def _gamma_lines(choice: Choice) -> list[Cell]:
    return [
        choice.cell(dataset, "sine", row, gamma=gamma)
        for dataset in choice.datasets_of(["svhn"])
        for gamma in GAMMAS
        for row in choice.rows_of(CONFERENCE)
    ]


def _alpha_lines(choice: Choice) -> list[Cell]:
    return [
        choice.cell(dataset, "sine", row, alpha=alpha)
        for dataset in choice.datasets_of(["svhn"])
        for alpha in ALPHAS
        for row in choice.rows_of(CONFERENCE)
    ]


def _line(cell: Cell, keys: tuple[str, ...], measured: Measurements, table: str, **by: float) -> Line:
    k = {"k": cell.k} if cell.algorithm == "fedswe" else {}
    paper = look_up(table, dataset=cell.dataset, dynamics=cell.dynamics, algorithm=cell.algorithm, **k, **by)
    ours = tuple(measured.score(cell, f"{part}_accuracy") for part in ("train", "test"))
    published: tuple[Measured | None, ...] = (None, None)
    if paper is not None:
        published = paper.values["train"], paper.values["test"]
    return Line(keys, ours, published)


def _table(
    choice: Choice, title: str, names: tuple[str, ...], lines: list[Line], measured: Measurements, cells: list[Cell]
) -> Report:
    judged = "FedSWE judged by the mean of the clients' models" if choice.profile == "released" else "server models"
    notes = [f"{judged}; mean of the last {choice.scale.tail} rounds", *lengths(cells, measured)]
    return Report([VerdictTable(title, names, ("train", "test"), lines, choice.profile, notes)])


def _main_report(choice: Choice, measured: Measurements) -> Report:
    cells = _main_lines(choice)
    lines = [_line(c, (c.dataset, c.dynamics, label(c)), measured, "table2") for c in cells]
    return _table(
        choice, "Table 2: accuracy by data set and dynamics", ("data", "dynamics", "algorithm"), lines, measured, cells
    )


def _gamma_report(choice: Choice, measured: Measurements) -> Report:
    cells = _gamma_lines(choice)
    lines = [_line(c, (f"{c.gamma:g}", label(c)), measured, "table8", gamma=c.gamma) for c in cells]
    return _table(
        choice, "Table 8: accuracy by the depth gamma of the sine", ("gamma", "algorithm"), lines, measured, cells
    )


def _alpha_report(choice: Choice, measured: Measurements) -> Report:
    cells = _alpha_lines(choice)
    lines = [_line(c, (f"{c.alpha:g}", label(c)), measured, "table9", alpha=c.alpha) for c in cells]
    return _table(choice, "Table 9: accuracy by heterogeneity alpha", ("alpha", "algorithm"), lines, measured, cells)


MAIN = Recipe("main-table", "Table 2", "accuracy of ten methods under three dynamics", _main_lines, _main_report)
GAMMA = Recipe("gamma-table", "Table 8", "accuracy by the depth of the sine", _gamma_lines, _gamma_report)
ALPHA = Recipe("alpha-table", "Table 9", "accuracy by heterogeneity", _alpha_lines, _alpha_report)
