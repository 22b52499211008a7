"""Train and test accuracy beside the paper's: Tables 2, 8 and 9, and other readings of what the paper leaves open.

The last is not in the paper: F3AST's seats and first rates, FedSWE's clip, progress and rates where k > 0, gFedAvg's
rate and period, FedAvg with the clip that the released code has for FedAWE, and a constant local rate for FedSWE and
FedAvg.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fedswe_paper.cell import PaperCell
from fedswe_paper.measurements import Measurements
from fedswe_paper.profile import EVERYWHERE, READINGS, TRIED
from fedswe_paper.publish import Page, Recipe
from fedswe_paper.published import look_up
from fedswe_paper.recipes.labels import label, remarks
from fedswe_paper.selection import CONFERENCE, DATASETS, ROWS, STEADY, Selection
from fedswe_paper.tables import Line, VerdictTable

GAMMAS = (0.3, 0.2, 0.1)
ALPHAS = (0.05, 0.1, 1.0)
_KEYS: dict[str, Callable[[PaperCell], str]] = {  # columns that name a row
    "data": lambda cell: cell.dataset,
    "dynamics": lambda cell: cell.dynamics,
    "algorithm": label,
    "gamma": lambda cell: f"{cell.gamma:g}",
    "alpha": lambda cell: f"{cell.alpha:g}",
    "local rate": lambda cell: f"{cell.experiment().local.lr:g}",
}


def _recipe(
    name: str,
    number: str,
    title: str,
    heading: str,
    keys: tuple[str, ...],
    lines: Callable[[Selection], list[PaperCell]],
    table: str = "table2",
) -> Recipe:
    """A table of one row per line, beside a table of the paper."""

    def report(selection: Selection, measured: Measurements) -> Page:
        cells, rows = lines(selection), []
        for cell in cells:
            by = {key: getattr(cell, key) for key in keys if key in ("gamma", "alpha")}
            paper = look_up(
                table, dataset=cell.dataset, dynamics=cell.dynamics, algorithm=cell.algorithm, k=cell.k, **by
            )
            ours = tuple(measured.score(cell, f"{part}_accuracy") for part in ("train", "test"))
            theirs = (paper.values["train"], paper.values["test"]) if paper else (None, None)
            rows.append(Line(tuple(_KEYS[key](cell) for key in keys), ours, theirs))
        judged = "FedSWE judged by the mean of the clients' models" if cell.profile == "released" else "server models"
        reasons = {label(cell): READINGS[cell.reading].why for cell in cells if cell.reading}
        notes = [
            f"{judged}; mean of the last {selection.scale.tail} rounds",
            *(f"{reading}: {why}" for reading, why in reasons.items()),
            *remarks(cells, measured),
        ]
        return Page([VerdictTable(heading, keys, ("train", "test"), rows, selection.profile, notes)])

    return Recipe(name, number, title, lines, report)


def _readings(selection: Selection) -> list[PaperCell]:
    tried = [
        selection.cell(dataset, dynamics, (algorithm, k), rate=rate, reading=reading)
        for dataset in selection.datasets_of(["svhn", "cifar10"])
        for dynamics in STEADY
        for algorithm, k, reading, rates in TRIED
        for rate in rates
        if dynamics == "sine" or (reading in EVERYWHERE and not rate)
    ]
    # One profile may follow already what is open in the other.
    return [cell for cell in tried if not cell.reading or cell.experiment() != replace(cell, reading="").experiment()]


MAIN = _recipe(
    "main-table",
    "Table 2",
    "accuracy of ten methods under three dynamics",
    "Table 2: accuracy by data set and dynamics",
    ("data", "dynamics", "algorithm"),
    lambda selection: selection.lines(DATASETS, STEADY, ROWS),
)
GAMMA = _recipe(
    "gamma-table",
    "Table 8",
    "accuracy by the depth gamma of the sine",
    "Table 8: accuracy by the depth gamma of the sine",
    ("gamma", "algorithm"),
    lambda selection: selection.lines(["svhn"], ["sine"], CONFERENCE, gamma=GAMMAS),
    "table8",
)
ALPHA = _recipe(
    "alpha-table",
    "Table 9",
    "accuracy by heterogeneity alpha",
    "Table 9: accuracy by heterogeneity alpha",
    ("alpha", "algorithm"),
    lambda selection: selection.lines(["svhn"], ["sine"], CONFERENCE, alpha=ALPHAS),
    "table9",
)
OPEN_READINGS = _recipe(
    "readings",
    "not in the paper",
    "other readings of five rows, beside Table 2",
    "Open readings: accuracy beside Table 2",
    ("data", "dynamics", "algorithm", "local rate"),
    _readings,
)
