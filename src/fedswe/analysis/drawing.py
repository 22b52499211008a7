"""One style for the drawings of all reports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Corner = Literal["best", "upper right", "lower right", "center right"]

BLUE, ORANGE, GREEN, RED, GREY = "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "0.5"
PALETTE = (RED, ORANGE, GREEN, BLUE, "#9467bd", "#8c564b")


def dress(axes: Axes, title: str, x: str, y: str, legend: Corner = "best") -> None:
    """Title, labels, a light grid, and a legend where something is named."""
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize=8, frameon=False, loc=legend)


def level(axes: Axes, y: float, text: str, color: object = GREY) -> None:
    """A dotted horizontal line with its name at the right end."""
    axes.axhline(y, color=color, linewidth=0.8, linestyle=":")
    beside(axes, y, text, color)


def beside(axes: Axes, y: float, text: str, color: object) -> None:
    """A name to the right of the panel, at the height of what it names."""
    axes.annotate(
        text, (1.0, y), xycoords=("axes fraction", "data"), xytext=(3, -3), textcoords="offset points", fontsize=8,
        color=color, annotation_clip=False,
    )  # fmt: skip


def count_axis(axes: Axes, zero: bool) -> None:
    """A logarithmic horizontal axis of counts, written as plain numbers; with zero, linear up to 1."""
    from matplotlib.ticker import FuncFormatter

    if zero:
        axes.set_xscale("symlog", linthresh=1)
        axes.set_xlim(left=0)
    else:
        axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def shades(count: int) -> Iterator[tuple[float, float, float, float]]:
    """Colours for an ordered family of curves, dark to light."""
    from matplotlib import colormaps

    return (colormaps["viridis"](0.85 * i / max(count - 1, 1)) for i in range(count))
