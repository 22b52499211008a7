"""Figures in one style: axes, charts of series over seeds, and files that are written whole.

The same figure always gives the same bytes.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from fedswe.errors import needed, require
from fedswe.results.files import write_whole

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]
Draw = Callable[["Figure"], None]
Size = tuple[float, float]  # inches
Corner = Literal["best", "upper right", "lower right", "center right"]

WIDTHS = {"single": 3.3, "double": 6.9}  # inches: one column and two columns of a page
# Okabe and Ito's colours, which colour-blind readers can tell apart; without yellow, which is too pale for a line
BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "0.45"
PALETTE = (RED, BLUE, GREEN, "#CC79A7", "#000000", ORANGE, "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")  # these and the lines tell curves apart without colours

_LINES: tuple[Any, ...] = ("solid", (0, (5, 1.2)), (0, (5, 1.2, 1.2, 1.2)), (0, (1.6, 0.9)))
_SMALL = 7  # points: labels and captions
_STYLE: Any = {
    "font.size": 8, "axes.titlesize": 8, "legend.fontsize": _SMALL,
    "xtick.labelsize": _SMALL, "ytick.labelsize": _SMALL,
    "svg.hashsalt": "fedswe",
    "pdf.fonttype": 42,  # publishers refuse Type 3 fonts
}  # fmt: skip
_UNDATED: dict[str, dict[str, Any]] = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
_COLUMNS = ("panel", "label", "x_name", "x", "y_name", "mean", "low", "high", "seeds")
_PANEL_HEIGHT = 2.3  # inches
_SAID = 6  # curves of which a panel says that they diverged
_FEW = 6  # a curve with fewer points has no late part


# axes --------------------------------------------------------------------------------------------------------
def format_axes(axes: Axes, title: str, x: str, y: str, legend: Corner = "best") -> None:
    """Title, axis labels, a light grid below the data, and a legend if anything drawn has a label."""
    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_axisbelow(True)
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(frameon=False, loc=legend)


def reference_line(axes: Axes, y: float, text: str, color: object = GREY) -> None:
    """A dotted horizontal line with its name to the right of the axes."""
    axes.axhline(y, color=color, linewidth=0.8, linestyle=":")
    axes.annotate(
        text, (1.0, y), xycoords=("axes fraction", "data"), xytext=(4, 0), textcoords="offset points", va="center",
        fontsize=_SMALL, color=color, annotation_clip=False,
    )  # fmt: skip


def count_axis(axes: Axes, zero: bool) -> None:
    """A logarithmic x axis of counts with plain numbers; with `zero`, linear from 0 to 1."""
    if zero:
        axes.set_xscale("symlog", linthresh=1)
        axes.set_xlim(-0.15, axes.get_xlim()[1] * 1.15)  # the points at both ends are clear of the frame
    else:
        axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")


def log_axis(axis: Axis) -> None:
    """Plain numbers on a logarithmic axis that is not too long for them; call it when the limits are set."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = sorted(axis.get_view_interval())
    if low > 1e-4 and high < 1e5 and high / low < 1e3:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())


def ordered_colors(count: int) -> list[tuple[float, float, float, float]]:
    """Colours for an ordered family of curves, dark to light."""
    from matplotlib import colormaps

    return [colormaps["viridis"](0.85 * i / max(count - 1, 1)) for i in range(count)]


def line_styles(names: Iterable[str], ordered: bool = False) -> dict[str, dict[str, Any]]:
    """Colour, line and marker of every name; `ordered` colours a family, such as the k of FedSWE."""
    labels = list(dict.fromkeys(names))
    colors = ordered_colors(len(labels)) if ordered else PALETTE
    return {
        label: {
            "color": colors[i % len(colors)],
            "linestyle": _LINES[i % len(_LINES)],
            "marker": MARKERS[i % len(MARKERS)],
        }
        for i, label in enumerate(labels)
    }


def message(axes: Axes, text: str) -> None:
    """A sentence in the middle of axes without data, which therefore have no ticks."""
    axes.set(xticks=[], yticks=[])
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=GREY, parse_math=False)


def caption(figure: Figure, text: str) -> None:
    """Sentences below the axes, in lines as wide as the figure."""
    if text:
        left = 0.05 / figure.get_size_inches()[0]
        figure.supxlabel(text, x=left, ha="left", fontsize=_SMALL, color="0.25", wrap=True, parse_math=False)


# files -------------------------------------------------------------------------------------------------------
def check_format(path: Path) -> None:
    """Refuse a file name without a known format, and a folder that does not exist."""
    require(path.suffix in _UNDATED, f"cannot draw {path}: the name must end in {', '.join(_UNDATED)}")
    require(path.parent.is_dir(), f"cannot write {path}: there is no folder {path.parent}")
    require(not path.is_dir(), f"cannot write {path}: it is a folder, name a file")


@contextmanager
def styled() -> Iterator[None]:
    """Draw and write in the style of all figures."""
    with needed("matplotlib", "plot").rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # a name in letters that the font does not have
        yield


def render(draw: Draw, size: Size) -> Figure:
    """The figure, with its layout fixed so that it is the same in every format."""
    made = needed("matplotlib.figure", "plot").Figure
    with styled():
        figure: Figure = made(figsize=size, dpi=150, layout="constrained")
        draw(figure)
        layout = figure.get_layout_engine()
        assert layout is not None
        layout.execute(figure)
        figure.set_layout_engine(None)
    return figure


def save(draw: Draw, size: Size, *paths: Path) -> None:
    """Draw once and write the figure to every path."""
    write(render(draw, size), *paths)


def write(figure: Figure, *paths: Path) -> None:
    for path in paths:
        check_format(path)
        content = io.BytesIO()
        with styled():
            figure.savefig(content, format=path.suffix.removeprefix("."), metadata=_UNDATED[path.suffix])
        write_whole(path, content.getvalue())


# charts ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Series:
    """One curve, or one bar per group: a row per seed, a value per x.

    NaN is not measured, infinity never reached or diverged.
    """

    label: str
    x: Sequence[float]
    seeds: npt.ArrayLike  # [seeds, len(x)]

    @classmethod
    def by_x(cls, label: str, x: Sequence[float], columns: Sequence[Sequence[float]]) -> Series:
        """From the values measured at each x; the number of seeds may differ."""
        return cls(label, x, list(zip_longest(*columns, fillvalue=np.nan)))


@dataclass(frozen=True)
class Panel:
    """One set of axes; without series it says that nothing was measured."""

    title: str
    series: Sequence[Series]
    y: str
    x: str = "round"
    log: bool = False  # logarithmic y: mean and std are of the logarithms


class Spread(NamedTuple):
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


def diverged_text(values: npt.ArrayLike) -> str:
    """How many of the seeds are infinite, in the words of the table of a comparison; empty if none is."""
    lost, seeds = int(np.isinf(values).sum()), int((~np.isnan(values)).sum())
    if not lost:
        return ""
    return "diverged" if lost == seeds else f"{lost} of {seeds} diverged"


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


def chart(
    panels: Sequence[Panel],
    plot: Callable[[Axes, Panel], None],
    note: str = "",
    width: float = WIDTHS["double"],
    height: float = _PANEL_HEIGHT,
) -> Chart:
    """Panels of this height with one legend, two to a row where they fit; `plot` draws one."""
    columns = min(len(panels), 2 if width > WIDTHS["single"] else 1)
    rows = -(-len(panels) // columns)
    labels = list(dict.fromkeys(series.label for panel in panels for series in panel.series))
    longest = max(map(len, labels), default=0)
    abreast = max(min(len(labels), int(width / (0.4 + 0.06 * longest))), 1)  # inches: a line, a letter

    def draw(figure: Figure) -> None:
        from matplotlib.ticker import MaxNLocator

        everything = figure.subplots(rows, columns, squeeze=False).ravel()
        for spare in everything[len(panels) :]:
            spare.set_axis_off()
        for axes, panel in zip(everything, panels, strict=False):
            format_axes(axes, panel.title, panel.x, panel.y)  # before anything has a label: the legend is shared
            for axis, name in ((axes.xaxis, panel.x), (axes.yaxis, panel.y)):
                if name.startswith("round"):
                    axis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10], min_n_ticks=1))
            if panel.series:
                plot(axes, panel)
            else:
                message(axes, "not measured")
        caption(figure, note)
        named: dict[str, Artist] = {}
        for axes in figure.axes:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                named.setdefault(label, handle)
        if named:
            legend = figure.legend(
                named.values(), named.keys(), loc="outside upper center", ncols=abreast, frameon=False, handlelength=2.5
            )
            for text in legend.get_texts():
                text.set_parse_math(False)

    lines = 0.17 * -(-len(labels) // abreast) + (0.13 * (1 + len(note) * 0.055 // width) if note else 0.0)
    return Chart(_csv(panels), draw, (width, height * rows + lines))


def curves(
    panels: Sequence[Panel],
    ordered: bool = False,
    note: str = "",
    width: float = WIDTHS["double"],
    y_range: tuple[float, float] | None = None,
) -> Chart:
    """Mean curves with a band of one std over seeds; `ordered` colours a family.

    A curve has no point where a seed is infinite. If one is at the end, a line in the panel says so.
    """
    styles = line_styles((series.label for panel in panels for series in panel.series), ordered)
    many = max((len(panel.series) for panel in panels), default=0)
    alpha = 0.15 if many <= 6 else 0.06  # many bands hide the curves

    def plot(axes: Axes, panel: Panel) -> None:
        said, empty = [], True
        for place, series in enumerate(panel.series):
            at, style = spread(series, panel.log), styles[series.label]
            # matplotlib leaves gaps at NaN only
            mean, low, high = (np.where(np.isfinite(v), v, np.nan) for v in (at.mean, at.low, at.high))
            marks = (0.15 * place / len(panel.series), 0.15)  # at equal distances, shifted from those of another curve
            sizes: Any = {"linewidth": 1.1, "markersize": 3.2, "markeredgewidth": 0}
            axes.plot(series.x, mean, label=series.label, markevery=marks, **sizes, **style)
            axes.fill_between(series.x, low, high, color=style["color"], alpha=alpha, linewidth=0)
            unseen = "" if np.isfinite(mean).any() else "no finite values"
            lost = diverged_text(np.asarray(series.seeds, dtype=np.float64)[:, -1]) or unseen
            said += [f"{series.label}: {lost}"] if lost else []
            empty = empty and bool(unseen)
        if panel.log and not empty:
            axes.set_yscale("log")  # matplotlib refuses it where there is no number to show
        if y_range is not None:
            axes.set_ylim(*y_range)
        if axes.get_yscale() == "log":
            log_axis(axes.yaxis)
        axes.margins(x=0.02)
        if empty:
            message(axes, "nothing to draw")
        text = "\n".join([*said[:_SAID], *(["..."] if len(said) > _SAID else [])])
        axes.text(0.01, 0.99, text, transform=axes.transAxes, va="top", fontsize=_SMALL, color=GREY, parse_math=False)

    return chart(panels, plot, " ".join(filter(None, [note, spread_note(panels, "Line: mean; band")])), width)


def bars(panels: Sequence[Panel]) -> Chart:
    """A group of bars per x, one bar per series, with the std over seeds."""
    styles = line_styles((series.label for panel in panels for series in panel.series), ordered=True)

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

    return chart(panels, plot, spread_note(panels, "Bar: mean; whisker"))


def dots(rows: Sequence[str], panel: Panel, note: str = "", width: float = WIDTHS["double"]) -> Chart:
    """A row per name, from the top: a dot per seed, and the mean with the std; x of a series are numbers of rows.

    Where a seed is infinite, the row says how many diverged, and nothing else.
    """
    styles = line_styles(series.label for series in panel.series)
    apart = 0.6 / len(panel.series)

    def plot(axes: Axes, panel: Panel) -> None:
        for place, series in enumerate(panel.series):
            at, seeds = spread(series, panel.log), np.asarray(series.seeds, dtype=np.float64)
            marker, color = (styles[series.label][name] for name in ("marker", "color"))
            y = np.asarray(series.x, dtype=np.float64) + apart * (place - (len(panel.series) - 1) / 2)
            known = np.isfinite(at.mean)
            points = {"linestyle": "none", "marker": marker, "color": color}
            shown = np.where(known & np.isfinite(seeds), seeds, np.nan).T
            axes.plot(shown, y, **points, markersize=3.4, alpha=0.55, markerfacecolor="none", markeredgewidth=0.6)
            mean, low, high = (values[known] for values in (at.mean, at.low, at.high))
            axes.errorbar(mean, y[known], xerr=[mean - low, high - mean], fmt="none", ecolor=color, capsize=2)
            axes.plot(mean, y[known], **points, markersize=4.4, label=series.label)
            for row, text in zip(y, map(diverged_text, seeds.T), strict=True):
                if text:
                    axes.annotate(
                        f"{series.label}: {text}", (0.01, row), xycoords=("axes fraction", "data"), va="center",
                        fontsize=_SMALL, color=color, parse_math=False,
                    )  # fmt: skip
        if panel.log:
            axes.set_xscale("log")
            log_axis(axes.xaxis)
        axes.set_yticks(range(len(rows)), rows, parse_math=False)
        axes.set_ylim(len(rows) - 0.4, -0.6)

    note = " ".join(filter(None, [note, spread_note([panel], "Filled: mean; open: seeds; whisker")]))
    apart_inches = 0.13 if any(np.isinf(series.seeds).any() for series in panel.series) else 0.08  # text is taller
    return chart([panel], plot, note, width, max(1.3, len(rows) * (0.07 + apart_inches * len(panel.series)) + 0.6))


def spread_note(panels: Sequence[Panel], mark: str) -> str:
    """Says what marks the spread over seeds; empty where there is one seed only."""
    counts = [len(np.asarray(series.seeds)) for panel in panels for series in panel.series]
    low, high = min(counts, default=0), max(counts, default=0)
    if high < 2:
        return ""
    of = " of the logarithms" if any(panel.log for panel in panels) else ""
    return f"{mark}: one standard deviation{of} over {high if low == high else f'{low} to {high}'} seeds."


def late_range(panels: Sequence[Panel], start: float = 0.25) -> tuple[float, float] | None:
    """The range of all mean curves after the first quarter of the rounds, with a margin of 5 %.

    The first rounds of a run change so much that the differences at its end would not be visible. A curve of few points
    counts as a whole.
    """
    late = []
    for panel in panels:
        for series in panel.series:
            x, mean = np.asarray(series.x, dtype=np.float64), spread(series, panel.log).mean
            first = x.min() + start * np.ptp(x) if len(x) >= _FEW else x.min()
            late.append(mean[np.isfinite(mean) & (x >= first)])
    values = np.concatenate(late) if late else np.empty(0)
    if not values.size:
        return None
    low, high = float(values.min()), float(values.max())
    if any(panel.log for panel in panels):
        margin = (high / low) ** 0.05 if high > low else 1.1
        return low / margin, high * margin
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 0.05
    return low - margin, high + margin


def numbers(panels: Sequence[Panel]) -> pd.DataFrame:
    """What charts show, a row per panel, label and x."""
    parts = []
    for panel in panels:
        for series in panel.series:
            named = {"panel": panel.title, "label": series.label, "x_name": panel.x, "x": series.x, "y_name": panel.y}
            parts.append(pd.DataFrame({**named, **spread(series, panel.log)._asdict()}))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=_COLUMNS)


def _csv(panels: Sequence[Panel]) -> str:
    table = numbers(panels)
    texts = {name: table[name].map("{:.6g}".format).where(table["seeds"] > 0, "") for name in ("mean", "low", "high")}
    texts["x"] = table["x"].map("{:g}".format)
    return str(table.assign(**texts).to_csv(index=False, lineterminator="\n"))
