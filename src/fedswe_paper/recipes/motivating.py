"""Figure 3: what non-stationary availability alone does to FedAvg."""

from __future__ import annotations

from fedswe.plotting import Panel, Series, bars
from fedswe_paper.cell import PaperCell
from fedswe_paper.measurements import Measurements, all_or_nan
from fedswe_paper.publish import Page, Recipe
from fedswe_paper.recipes.labels import remarks
from fedswe_paper.selection import Selection

PROBABILITIES = (0.1, 0.3, 0.5, 1.0)  # of every client; the paper's values are those of its conference version
GAMMAS = (0.1, 0.2, 0.3, 0.5)


def _lines(selection: Selection) -> list[PaperCell]:
    return selection.lines(["svhn"], ["sine"], [("fedavg", 0.0)], p=PROBABILITIES, gamma=GAMMAS)


def _report(selection: Selection, measured: Measurements) -> Page:
    panels, cells = [], _lines(selection)
    for dataset in dict.fromkeys(cell.dataset for cell in cells):
        for part in ("train", "test"):
            series = []
            for gamma in GAMMAS:
                there = [c for c in cells if (c.dataset, c.gamma) == (dataset, gamma) and measured.of(c)]
                scores = [all_or_nan(measured.scores(cell, f"{part}_accuracy").values()) for cell in there]
                if there:
                    series.append(Series.by_x(f"gamma = {gamma:g}", [cell.p for cell in there], scores))
            panels.append(Panel(f"FedAvg, {dataset}", series, f"{part} accuracy, %", x="p of every client"))
    return Page(charts={"accuracy": bars(panels)}, notes=remarks(cells, measured))


MOTIVATING = Recipe("fig3", "Figure 3", "FedAvg under a sine of several depths", _lines, _report)
