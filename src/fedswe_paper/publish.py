"""A recipe: which cells a table or figure of the paper needs, and the page it makes of them.

There is one folder of pages per scale and profile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd

from fedswe.charts import Chart
from fedswe.results.files import cannot_write, write_whole
from fedswe_paper.cell import PaperCell
from fedswe_paper.measurements import Measurements
from fedswe_paper.selection import Selection
from fedswe_paper.tables import VerdictTable

Overview = tuple[str, Sequence[str], Sequence[Sequence[str]]]  # title, columns, rows


@dataclass(frozen=True)
class Page:
    """Tables, charts and notes, or a text, its sheets, and what the command shows of it."""

    tables: list[VerdictTable] = field(default_factory=list)
    charts: dict[str, Chart] = field(default_factory=dict)  # by file name
    notes: list[str] = field(default_factory=list)
    text: str = ""
    sheets: dict[str, pd.DataFrame] = field(default_factory=dict)  # by file name
    overview: Overview | None = None
    said: str = ""  # below the overview


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


def publish(recipe: Recipe, page: Page, selection: Selection, out: Path) -> Path:
    """RECIPE.md with its tables and figures, and .csv, .png, .svg beside it.

    A data set other than the scale's own has pages of its own.
    """
    folder = out / "-".join([selection.scale_name, selection.profile, *selection.datasets])
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from None
    sheets, parts = dict(page.sheets), []
    for name, chart in page.charts.items():
        file = recipe.name if name == recipe.name else f"{recipe.name}-{name}"
        chart.save(folder, file)
        parts += [f"![{recipe.title}]({file}.png)", ""]
    if page.tables:
        parts += [table.to_markdown() for table in page.tables]
        sheets[recipe.name] = pd.concat([table.rows() for table in page.tables])
    for name, sheet in sheets.items():
        write_whole(folder / f"{name}.csv", sheet.to_csv(index=False))
    scale = f"scale {selection.scale_name} ({selection.scale.purpose})"
    head = [f"# {recipe.number}: {recipe.title}", "", f"{scale}, profile {selection.profile}", ""]
    command = f"fedswe reproduce {recipe.name} --scale {selection.scale_name} --profile {selection.profile}"
    command += f" --dataset {','.join(selection.datasets)}" if selection.datasets else ""
    lines = [*head, *parts, *(f"- {note}" for note in page.notes), "", f"Command: `{command}`", ""]
    write_whole(folder / f"{recipe.name}.md", page.text or "\n".join(lines))
    return folder / f"{recipe.name}.md"
