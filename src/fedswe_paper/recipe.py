"""A recipe: which cells a table or figure of the paper needs, and what it makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from fedswe.plotting import Chart
from fedswe_paper.cell import PaperCell
from fedswe_paper.measurements import Measurements
from fedswe_paper.selection import Selection
from fedswe_paper.tables import VerdictTable


@dataclass(frozen=True)
class Page:
    tables: list[VerdictTable] = field(default_factory=list)
    charts: dict[str, Chart] = field(default_factory=dict)  # by file name
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Recipe:
    name: str
    number: str  # in the paper
    title: str
    lines: Callable[[Selection], list[PaperCell]]  # its cells for the data sets of a selection, with seed 0
    report: Callable[[Selection, Measurements], Page]

    def cells(self, selection: Selection) -> list[PaperCell]:
        seeds = selection.seeds or selection.scale.seeds
        lines = [line for line in self.lines(selection) if selection.wants(line)]
        return [replace(line, seed=seed) for seed in seeds for line in lines]
