"""A recipe: which cells a table or figure of the paper needs, and what it makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from fedswe.reproduce.cell import Cell
from fedswe.reproduce.charts import Chart
from fedswe.reproduce.choice import Choice
from fedswe.reproduce.measurements import Measurements
from fedswe.reproduce.tables import VerdictTable


@dataclass(frozen=True)
class Report:
    tables: list[VerdictTable] = field(default_factory=list)
    charts: dict[str, Chart] = field(default_factory=dict)  # by file name
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Recipe:
    name: str
    number: str  # in the paper
    title: str
    lines: Callable[[Choice], list[Cell]]  # all its cells for the data sets of a choice; their seed is still open
    report: Callable[[Choice, Measurements], Report]

    def cells(self, choice: Choice) -> list[Cell]:
        seeds = choice.seeds or choice.scale.seeds
        lines = [line for line in self.lines(choice) if choice.wants(line)]
        return [replace(line, seed=seed) for seed in seeds for line in lines]
