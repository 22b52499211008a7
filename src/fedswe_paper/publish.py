"""A recipe: which cells a table or figure of the paper needs, and the page it makes of them.

There is one folder of pages per scale and profile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd

from fedswe.charts import Chart
from fedswe.results.files import cannot_write, write_whole
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


def publish(recipe: Recipe, selection: Selection, measured: Measurements, out: Path) -> Path:
    """RECIPE.md with its tables and figures, and .csv, .png, .svg beside it."""
    folder = folder_of(selection, out)
    report = recipe.report(selection, measured)
    scale = f"scale {selection.scale_name} ({selection.scale.purpose})"
    page = [f"# {recipe.number}: {recipe.title}", "", f"{scale}, profile {selection.profile}", ""]
    for name, chart in report.charts.items():
        file = recipe.name if name == recipe.name else f"{recipe.name}-{name}"
        chart.save(folder, file)
        page += [f"![{recipe.title}]({file}.png)", ""]
    if report.tables:
        page += [table.to_markdown() for table in report.tables]
        rows = pd.concat([table.rows() for table in report.tables])
        write_whole(folder / f"{recipe.name}.csv", rows.to_csv(index=False))
    page += [f"- {note}" for note in report.notes]
    command = f"fedswe reproduce {recipe.name} --scale {selection.scale_name} --profile {selection.profile}"
    command += f" --dataset {','.join(selection.datasets)}" if selection.datasets else ""
    page += ["", f"Command: `{command}`", ""]
    write_whole(folder / f"{recipe.name}.md", "\n".join(page))
    return folder / f"{recipe.name}.md"


def folder_of(selection: Selection, out: Path) -> Path:
    """Where the pages of a selection are; a data set other than the scale's own has pages of its own."""
    folder = out / "-".join([selection.scale_name, selection.profile, *selection.datasets])
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from None
    return folder
