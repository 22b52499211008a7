"""Figures 1, 2, 4, 5 and 13 to 16, which need no training."""

from __future__ import annotations

from fedswe_paper.illustrations import illustration
from fedswe_paper.measurements import Measurements
from fedswe_paper.recipe import Page, Recipe
from fedswe_paper.selection import Selection

_TITLES = {
    "fig1": "availability that differs between clients and over the rounds",
    "fig2": "how far FedAvg ends from the optimum of two clients",
    "fig4": "how fast clients mix, against k",
    "fig5": "two alternating clients with and without interpolation",
    "fig13": "paths of information between clients through the virtual clients",
    "fig14": "labels of 20 clients",
    "fig15": "how often 100 clients are available",
    "fig16": "the three dynamics",
}


def _recipe(name: str, title: str) -> Recipe:
    def report(selection: Selection, measured: Measurements) -> Page:
        return Page(charts={name: illustration(name)})

    return Recipe(name, f"Figure {name.removeprefix('fig')}", title, lambda selection: [], report)


DRAWN = {name: _recipe(name, title) for name, title in _TITLES.items()}
