"""The result of an analysis: values for programs; tables, notes and a figure for readers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedswe import plotting
from fedswe.plotting import BLUE, GREEN, GREY, ORANGE, RED, Draw, Size, count_axis, format_axes, message, reference_line
from fedswe.results.display import Displayed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLORS = (BLUE, ORANGE, GREEN, RED, GREY, "#CC79A7", "#56B4E9")
_MARKERS = "os^DvPX"


@dataclass(frozen=True, repr=False)
class Report(Displayed):
    """One analysis in three forms: values, tables by title with notes, and a figure."""

    values: dict[str, Any]
    draw: Draw
    size: Size
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def _shown(self) -> tuple[dict[str, pd.DataFrame], list[str]]:
        return dict(self.tables), self.notes

    def _figure(self) -> Figure:
        return plotting.render(self.draw, self.size)


def frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows by title of the column as a table whose whole numbers stay whole beside cells without a value."""
    return pd.DataFrame(rows, dtype=object)


def cells(table: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """The titles and the cells of a table for printing."""
    return list(map(str, table)), [[text(value) for value in row] for row in table.itertuples(index=False)]


def text(value: Any) -> str:
    """Strings and whole numbers as they are, other numbers with four digits, a dash if there is no value."""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return " … ".join(map(text, value))
    return value if isinstance(value, str) else str(value) if isinstance(value, int | np.integer) else short(value)


def short(value: float | None) -> str:
    """Four digits; a dash if there is no value."""
    if value is None or math.isnan(value):
        return "—"
    if math.isinf(value):
        return "∞"
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


@dataclass(frozen=True, eq=False)
class Panel:
    """Axes with a curve for each column of a table, over its index."""

    title: str
    x: str
    y: str
    table: pd.DataFrame
    scale: str = ""  # "log x", "k" (logarithmic from 1 on, with 0), "log y"; several in one text
    style: str = "-"  # of the curves: "-", "o", "o-", "steps"
    band: tuple[Any, Any] | None = None  # around the first curve
    lines: Mapping[str, float] = field(default_factory=dict)  # horizontal, those beyond the curves are left out


def figure_of(*panels: Panel) -> Draw:
    """Panels side by side, from three on in two rows."""

    def draw(figure: Figure) -> None:
        grid = figure.subplots(1 + (len(panels) > 2), min(len(panels), 2), squeeze=False)
        for axes, panel in zip(grid.flat, panels, strict=True):
            for n, (name, values) in enumerate(panel.table.items()):
                looks: dict[str, Any] = {"drawstyle": "steps-post"} if panel.style == "steps" else {}
                looks |= {"marker": _MARKERS[n % 7], "markersize": 4} if "o" in panel.style else {}
                axes.plot(
                    panel.table.index, values, color=_COLORS[n % 7], linewidth=1.2, markerfacecolor="none",
                    linestyle="none" if panel.style == "o" else "solid", label=str(name) or None, **looks,
                )  # fmt: skip
            if panel.band is not None:
                axes.fill_between(panel.table.index, *panel.band, color=BLUE, alpha=0.15, linewidth=0)
            top = np.nanmax([1e-300, *panel.table.to_numpy(dtype=float).ravel(), *np.ravel((panel.band or (0, 0))[1])])
            for name, height in panel.lines.items():
                if height < 1.4 * top:  # others would squeeze the curves
                    reference_line(axes, height, name)
            if "log y" in panel.scale:
                axes.set_yscale("log")
            else:
                axes.set_ylim(0, 1.25 * top)
            if "log x" in panel.scale or panel.scale.startswith("k"):
                count_axis(axes, zero=panel.scale.startswith("k"))
            if not panel.table.size:
                message(axes, "there is nothing to draw")
            format_axes(axes, panel.title, panel.x, panel.y)

    return draw
