"""Write the results: one folder per scale and profile, one page per recipe."""

from __future__ import annotations

from pathlib import Path

from fedswe.results.files import cannot_write, write_whole
from fedswe_paper.measurements import Measurements
from fedswe_paper.recipe import Recipe
from fedswe_paper.selection import Selection


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
        write_whole(folder / f"{recipe.name}.csv", _joined([table.to_csv() for table in report.tables]))
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


def _joined(sheets: list[str]) -> str:
    """Tables one after another under one head where they have the same."""
    heads = [sheet.splitlines()[0] for sheet in sheets]
    rest = (
        "\n".join(s.splitlines()[1 if h == heads[0] and i else 0 :])
        for i, (s, h) in enumerate(zip(sheets, heads, strict=True))
    )
    return "\n".join(rest) + "\n"
