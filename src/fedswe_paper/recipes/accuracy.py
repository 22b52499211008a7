"""Accuracy beside the paper's: Tables 2, 7, 8 and 9, Figure 3, and other readings of what the paper leaves open.

The last is not in the paper: F3AST's seats and first rates, FedSWE's clip, progress and rates where k > 0, gFedAvg's
rate and period, FedAvg with the clip that the released code has for FedAWE, and a constant local rate for FedSWE and
FedAvg.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from fedswe.charts import Panel, Series, bars
from fedswe_paper.cell import PaperCell
from fedswe_paper.measurements import Measurements, all_or_nan, regular
from fedswe_paper.profile import EVERYWHERE, READINGS, TRIED
from fedswe_paper.publish import Page, Recipe
from fedswe_paper.published import look_up
from fedswe_paper.recipes.labels import label, remarks
from fedswe_paper.selection import CONFERENCE, DATASETS, ROWS, STEADY, Selection
from fedswe_paper.tables import Line, Measured, VerdictTable

GAMMAS = (0.3, 0.2, 0.1)
ALPHAS = (0.05, 0.1, 1.0)
PROBABILITIES = (0.1, 0.3, 0.5, 1.0)  # of every client; the paper's values are those of its conference version
DEPTHS = (0.1, 0.2, 0.3, 0.5)
# Percent; easier steps for CIFAR-10 and CINIC-10, as in the paper.
_TARGETS = {"svhn": (20, 40, 60, 80), "cifar10": (15, 30, 45, 60), "cinic10": (10, 20, 30, 40)}
_OTHER = (20, 40, 60, 80)
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
            paper = look_up(table, **vars(cell))
            ours = [measured.score(cell, f"{part}_accuracy") for part in ("train", "test")]
            theirs = [paper.values["train"], paper.values["test"]] if paper else ()
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


def _varied(number: int, coordinate: str, values: Sequence[float], title: str) -> Recipe:
    """SVHN under the sine, by one coordinate."""

    def lines(selection: Selection) -> list[PaperCell]:
        return selection.lines(["svhn"], ["sine"], CONFERENCE, **{coordinate: values})

    table, keys = f"Table {number}", (coordinate, "algorithm")
    return _recipe(f"{coordinate}-table", table, title, f"{table}: {title}", keys, lines, f"table{number}")


GAMMA = _varied(8, "gamma", GAMMAS, "accuracy by the depth gamma of the sine")
ALPHA = _varied(9, "alpha", ALPHAS, "accuracy by heterogeneity alpha")
OPEN_READINGS = _recipe(
    "readings",
    "not in the paper",
    "other readings of five rows, beside Table 2",
    "Open readings: accuracy beside Table 2",
    ("data", "dynamics", "algorithm", "local rate"),
    _readings,
)


def targets_of(dataset: str) -> tuple[int, ...]:
    return _TARGETS.get(dataset, _OTHER)


def first_round(cell: PaperCell, measured: Measurements, target: float, output: str | None = None) -> Measured | None:
    """Of the curve averaged over seeds, as the paper does; infinite if never, NaN if a run diverged before."""
    runs = measured.of(cell)
    if not runs:
        return None
    curve = np.mean([run.curve(run.column(output)) for run in runs], axis=0)
    reached = runs[0].history["round"][regular(runs[0]) & (curve >= target / 100)]
    never = math.nan if any(run.diverged for run in runs) else math.inf
    return Measured(float(reached[0]) if len(reached) else never, None, len(runs))


def _sine(selection: Selection) -> list[PaperCell]:
    return selection.lines(DATASETS, ["sine"], CONFERENCE)


def _slowdown(selection: Selection, measured: Measurements) -> Page:
    tables = []
    for dataset in selection.datasets_of(DATASETS):
        targets, lines = targets_of(dataset), []
        cells = [cell for cell in _sine(selection) if cell.dataset == dataset]
        for cell in cells:
            paper = [look_up("table7", **vars(cell), target=target) for target in targets]
            ours = [first_round(cell, measured, target) for target in targets]
            lines.append(Line((label(cell),), ours, [row.values["rounds"] if row else None for row in paper]))
        notes = [f"sine; judged every {cells[0].experiment().evaluate.every} rounds", *remarks(cells, measured)]
        title = f"Table 7: first round to reach a test accuracy, {dataset}"
        columns = tuple(f"{target} %" for target in targets)
        tables.append(VerdictTable(title, ("algorithm",), columns, lines, selection.profile, notes, "rounds"))
    return Page(tables)


SLOWDOWN = Recipe("slowdown-table", "Table 7", "rounds to reach a test accuracy", _sine, _slowdown)


def _depths(selection: Selection) -> list[PaperCell]:
    return selection.lines(["svhn"], ["sine"], [("fedavg", 0.0)], p=PROBABILITIES, gamma=DEPTHS)


def _motivating(selection: Selection, measured: Measurements) -> Page:
    panels, cells = [], _depths(selection)
    for dataset in dict.fromkeys(cell.dataset for cell in cells):
        for part in ("train", "test"):
            series = []
            for gamma in DEPTHS:
                there = [c for c in cells if (c.dataset, c.gamma) == (dataset, gamma) and measured.of(c)]
                scores = [all_or_nan(measured.scores(cell, f"{part}_accuracy").values()) for cell in there]
                if there:
                    series.append(Series.by_x(f"gamma = {gamma:g}", [cell.p for cell in there], scores))
            panels.append(Panel(f"FedAvg, {dataset}", series, f"{part} accuracy, %", x="p of every client"))
    return Page(charts={"accuracy": bars(panels)}, notes=remarks(cells, measured))


MOTIVATING = Recipe("fig3", "Figure 3", "FedAvg under a sine of several depths", _depths, _motivating)
