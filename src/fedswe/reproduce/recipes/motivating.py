"""Figure 3: what non-stationary availability alone does to FedAvg."""

from __future__ import annotations

from fedswe.reproduce.cell import Cell
from fedswe.reproduce.charts import Panel, Series, bars
from fedswe.reproduce.choice import Choice
from fedswe.reproduce.measurements import Measurements
from fedswe.reproduce.recipe import Recipe, Report
from fedswe.reproduce.recipes.words import remarks

PROBABILITIES = (0.1, 0.3, 0.5, 1.0)  # of every client; the paper's values are those of its conference version
GAMMAS = (0.1, 0.2, 0.3, 0.5)


def line(choice: Choice, dataset: str, p: float, gamma: float) -> Cell:
    return choice.cell(dataset, "sine", ("fedavg", 0.0), p=p, gamma=gamma)


def _lines(choice: Choice) -> list[Cell]:
    return [line(choice, d, p, gamma) for d in choice.datasets_of(["svhn"]) for p in PROBABILITIES for gamma in GAMMAS]


def _report(choice: Choice, measured: Measurements) -> Report:
    panels = []
    for dataset in choice.datasets_of(["svhn"]):
        for part in ("train", "test"):
            series = []
            for gamma in GAMMAS:
                there = [p for p in PROBABILITIES if measured.of(line(choice, dataset, p, gamma))]
                columns = [
                    list(measured.scores(line(choice, dataset, p, gamma), f"{part}_accuracy").values()) for p in there
                ]
                if there:
                    series.append(Series.by_x(f"gamma = {gamma:g}", there, columns))
            panels.append(Panel(f"FedAvg, {dataset}", series, f"{part} accuracy, %", x="p of every client"))
    return Report(charts={"accuracy": bars(panels)}, notes=remarks(_lines(choice), measured))


MOTIVATING = Recipe("fig3", "Figure 3", "FedAvg under a sine of several depths", _lines, _report)
