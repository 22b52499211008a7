"""Figures in one style: axes, charts of series over seeds, and files that are written whole."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from fedswe.errors import FedsweError, require
from fedswe.results.files import aside_of, write_whole

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]
Draw = Callable[["Figure"], None]
Size = tuple[float, float]  # inches
Corner = Literal["best", "upper right", "lower right", "center right"]

BLUE, ORANGE, GREEN, RED, GREY = "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "0.5"
PALETTE = (RED, ORANGE, GREEN, BLUE, "#9467bd", "#8c564b", "#17becf", "#e377c2")
_LINES = ("solid", "dashed", "dashdot", "dotted")  # after all colours are used, the next line style
_FORMATS = (".png", ".svg", ".pdf")
_DPI = 150
_LEGEND_COLUMNS = 5


# files -----------------------------------------------------------------------------------------------------
def check_format(path: Path) -> None:
    """Refuse a file name without a known format, and a folder that does not exist."""
    require(path.suffix in _FORMATS, f"cannot draw {path}: the name must end in {', '.join(_FORMATS)}")
    require(path.parent.is_dir(), f"cannot write {path}: there is no folder {path.parent}")


def save(draw: Draw, size: Size, *paths: Path) -> None:
    """Draw once and write the figure to every path; each file is written whole or not at all."""
    from matplotlib.figure import Figure

    for path in paths:
        check_format(path)
    figure = Figure(figsize=size, dpi=_DPI, layout="constrained")
    draw(figure)
    layout = figure.get_layout_engine()
    assert layout is not None
    layout.execute(figure)
    figure.set_layout_engine(None)  # the layout is the same in every format: do not compute it again
    for path in paths:
        _write(figure, path)


def _write(figure: Figure, path: Path) -> None:
    from matplotlib import rc_context

    aside = aside_of(path)
    undated = {"Date": None} if path.suffix == ".svg" else None
    try:
        with rc_context({"svg.hashsalt": "fedswe"}):  # the same figure gives the same file
            figure.savefig(aside, format=path.suffix.removeprefix("."), metadata=undated)
        aside.replace(path)
    except OSError as error:
        raise FedsweError(f"cannot write {path}: {error.strerror}; free space or choose another folder") from None
    finally:
        with suppress(OSError):  # on a read-only file system there is nothing to remove
            aside.unlink(missing_ok=True)


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


# axes ------------------------------------------------------------------------------------------------------
def format_axes(axes: Axes, title: str, x: str, y: str, legend: Corner = "best") -> None:
    """Title, axis labels, a light grid, and a legend if anything drawn has a label."""
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize=8, frameon=False, loc=legend)


def reference_line(axes: Axes, y: float, text: str, color: object = GREY) -> None:
    """A dotted horizontal line with its name to the right of the axes."""
    axes.axhline(y, color=color, linewidth=0.8, linestyle=":")
    axes.annotate(
        text, (1.0, y), xycoords=("axes fraction", "data"), xytext=(3, -3), textcoords="offset points", fontsize=8,
        color=color, annotation_clip=False,
    )  # fmt: skip


def count_axis(axes: Axes, zero: bool) -> None:
    """A logarithmic x axis of counts with plain numbers; with `zero`, linear from 0 to 1."""
    from matplotlib.ticker import FuncFormatter

    if zero:
        axes.set_xscale("symlog", linthresh=1)
        axes.set_xlim(left=0)
    else:
        axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def ordered_colors(count: int) -> list[tuple[float, float, float, float]]:
    """Colours for an ordered family of curves, dark to light."""
    from matplotlib import colormaps

    return [colormaps["viridis"](0.85 * i / max(count - 1, 1)) for i in range(count)]


# charts ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Series:
    """One curve, or one bar per group: a row per seed, a value per x. NaN is not measured, infinity never reached."""

    label: str
    x: Sequence[float]
    seeds: npt.ArrayLike  # [seeds, len(x)]

    def __post_init__(self) -> None:
        shape = np.shape(self.seeds)
        require(
            len(shape) == 2 and shape[0] > 0 and shape[1] == len(self.x),
            f"{self.label}: give one row per seed with {len(self.x)} values each, not an array of shape {shape}",
        )

    @classmethod
    def by_x(cls, label: str, x: Sequence[float], columns: Sequence[Sequence[float]]) -> Series:
        """From the values measured at each x; the number of seeds may differ."""
        seeds = max(map(len, columns))
        return cls(label, x, [[c[i] if i < len(c) else np.nan for c in columns] for i in range(seeds)])


@dataclass(frozen=True)
class Panel:
    """One set of axes; without series it says that nothing was measured."""

    title: str
    series: Sequence[Series]
    y: str
    x: str = "round"
    log: bool = False  # logarithmic y: mean and std are of the logarithms


@dataclass(frozen=True)
class Spread:
    """Per x: the mean over seeds, mean - std, mean + std, and the number of seeds."""

    mean: Floats
    low: Floats
    high: Floats
    seeds: npt.NDArray[np.int64]


def spread(series: Series, log: bool = False) -> Spread:
    """Mean and std (n - 1) over the seeds that were measured; the std of one seed is 0.

    If any seed is infinite, so is the mean.
    """
    values = np.array(series.seeds, dtype=np.float64)
    if log:
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.log(values)
        values[np.isneginf(values)] = np.nan  # a zero cannot be shown on a logarithmic axis
    never = np.isinf(values).any(0)
    known = np.ma.masked_array(values, np.isnan(values) | never)
    mean: Floats = np.where(never, np.inf, known.mean(0).filled(np.nan))
    std: Floats = known.std(0, ddof=1).filled(0.0)
    mean, low, high = (np.exp(end) if log else end for end in (mean, mean - std, mean + std))
    return Spread(mean, low, high, (~np.isnan(values)).sum(0))


@dataclass(frozen=True)
class Chart:
    """A figure and its numbers."""

    data: str  # CSV
    draw: Draw
    size: Size

    def save(self, folder: Path, name: str) -> list[Path]:
        """Write NAME.png, NAME.svg and NAME.csv."""
        png, svg, table = (folder / f"{name}{end}" for end in (".png", ".svg", ".csv"))
        save(self.draw, self.size, png, svg)
        write_whole(table, self.data)
        return [png, svg, table]


def chart(panels: Sequence[Panel], plot: Callable[[Axes, Panel], None], title: str = "") -> Chart:
    """Panels, two to a row, with one legend; `plot` draws the series of one panel."""
    columns, rows = min(len(panels), 2), -(-len(panels) // 2)
    labels = len({series.label for panel in panels for series in panel.series})

    def draw(figure: Figure) -> None:
        from matplotlib.ticker import MaxNLocator

        everything = figure.subplots(rows, columns, squeeze=False).ravel()
        for spare in everything[len(panels) :]:
            spare.set_axis_off()
        for axes, panel in zip(everything, panels, strict=False):
            format_axes(axes, panel.title, panel.x, panel.y)  # before anything has a label: the legend is shared
            axes.set_axisbelow(True)
            for axis, name in ((axes.xaxis, panel.x), (axes.yaxis, panel.y)):
                if name.startswith("round"):
                    axis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
            if panel.series:
                plot(axes, panel)
            else:
                message(axes, "not measured")
        if title:
            figure.suptitle(title, fontsize=10)
        _shared_legend(figure)

    height = 3.2 * rows + 0.3 + 0.2 * -(-labels // _LEGEND_COLUMNS) + (0.3 if title else 0.0)
    return Chart(_numbers(panels), draw, (4.6 * columns, height))


def curves(
    panels: Sequence[Panel], ordered: bool = False, title: str = "", y_range: tuple[float, float] | None = None
) -> Chart:
    """Mean curves with a band of one std over seeds; `ordered` colours a family, such as the k of FedSWE."""
    styles = line_styles(panels, ordered)
    alpha = 0.15 if len(styles) <= 6 else 0.06  # many bands hide the curves

    def plot(axes: Axes, panel: Panel) -> None:
        for series in panel.series:
            at, style = spread(series, panel.log), styles[series.label]
            # matplotlib leaves gaps at NaN only
            mean, low, high = (np.where(np.isfinite(v), v, np.nan) for v in (at.mean, at.low, at.high))
            axes.plot(series.x, mean, linewidth=1.3, label=series.label, **style)
            axes.fill_between(series.x, low, high, color=style["color"], alpha=alpha, linewidth=0)
        if panel.log and any(np.isfinite(spread(series, log=True).mean).any() for series in panel.series):
            axes.set_yscale("log")  # matplotlib refuses it where there is no number to show
        if y_range is not None:
            axes.set_ylim(*y_range)

    return chart(panels, plot, title)


def bars(panels: Sequence[Panel]) -> Chart:
    """A group of bars per x, one bar per series, with the std over seeds."""
    styles = line_styles(panels, ordered=True)

    def plot(axes: Axes, panel: Panel) -> None:
        groups = sorted({x for series in panel.series for x in series.x})
        width = 0.8 / len(panel.series)
        for place, series in enumerate(panel.series):
            at = spread(series)
            left = np.array([groups.index(x) for x in series.x]) - 0.4 + (place + 0.5) * width
            axes.bar(left, at.mean, width, color=styles[series.label]["color"], label=series.label)
            several = at.seeds > 1
            axes.errorbar(
                left[several], at.mean[several], (at.high - at.low)[several] / 2,
                fmt="none", ecolor="0.2", elinewidth=0.8, capsize=2,
            )  # fmt: skip
        axes.set_xticks(range(len(groups)), [f"{x:g}" for x in groups])

    return chart(panels, plot)


def plot_comparison(panels: Sequence[Panel], title: str, path: Path) -> None:
    """Curves over the rounds with one y-range for all panels, as a PNG and an SVG file named like `path`."""
    figure = curves(panels, title=title, y_range=_late_range(panels))
    save(figure.draw, figure.size, path.with_suffix(".png"), path.with_suffix(".svg"))


def _late_range(panels: Sequence[Panel], start: float = 0.1) -> tuple[float, float] | None:
    """The range of all mean curves after the first tenth of the rounds, with a margin of 5 %.

    The first rounds of a run change so much that the differences at its end would not be visible.
    """
    late = []
    for panel in panels:
        for series in panel.series:
            x, mean = np.asarray(series.x, dtype=np.float64), spread(series, panel.log).mean
            late.append(mean[np.isfinite(mean) & (x >= x.min() + start * np.ptp(x))])
    values = np.concatenate(late) if late else np.empty(0)
    if not values.size:
        return None
    low, high = float(values.min()), float(values.max())
    if any(panel.log for panel in panels):
        margin = (high / low) ** 0.05 if high > low else 1.1
        return low / margin, high * margin
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 0.05
    return low - margin, high + margin


def line_styles(panels: Sequence[Panel], ordered: bool = False) -> dict[str, dict[str, Any]]:
    """Colour and line style of every label, the same in all panels."""
    labels = list(dict.fromkeys(series.label for panel in panels for series in panel.series))
    if ordered:
        return {label: {"color": color} for label, color in zip(labels, ordered_colors(len(labels)), strict=True)}
    colors, lines = len(PALETTE), len(_LINES)
    return {
        label: {"color": PALETTE[i % colors], "linestyle": _LINES[i // colors % lines]}
        for i, label in enumerate(labels)
    }


def message(axes: Axes, text: str) -> None:
    """A sentence in the middle of empty axes."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=GREY)


def _shared_legend(figure: Figure) -> None:
    named: dict[str, Artist] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    if len(named) > 1:
        figure.legend(
            named.values(), named.keys(), loc="outside lower center", ncols=min(len(named), _LEGEND_COLUMNS),
            fontsize=8, frameon=False, handlelength=3,
        )  # fmt: skip


def _numbers(panels: Sequence[Panel]) -> str:
    rows = []
    for panel in panels:
        for series in panel.series:
            at = spread(series, panel.log)
            for x, mean, low, high, seeds in zip(series.x, at.mean, at.low, at.high, at.seeds, strict=True):
                shown = [f"{v:.6g}" if seeds else "" for v in (mean, low, high)]
                rows.append([panel.title, series.label, panel.x, f"{x:g}", panel.y, *shown, seeds])
    return csv_text(["panel", "label", "x_name", "x", "y_name", "mean", "low", "high", "seeds"], rows)
