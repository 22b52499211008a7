"""Charts: panels of series over seeds, drawn as curves, bars or dots, and the numbers that they show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from fedswe.plotting import GREY, SMALL, WIDTHS, Draw, Size, caption, format_axes, line_styles, log_axis, message, save
from fedswe.results.files import write_whole
from fedswe.results.table import SEEDS, diverged_text

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]

_COLUMNS = ("panel", "label", "x_name", "x", "y_name", "mean", "low", "high", "seeds")
_PANEL_HEIGHT = 2.3  # inches
_SAID = 6  # curves of which a panel says that they diverged
_FEW = 6  # a curve with fewer points has no late part


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
    grey: str = "",
) -> Chart:
    """Mean curves with a band of one std over three and more seeds; `ordered` colours a family.

    A curve has no point where a seed is infinite. If one is at the end, a line in the panel says so. All curves with
    the label `grey` are grey and behind the others.
    """
    labels = [series.label for panel in panels for series in panel.series if series.label != grey]
    styles = {**line_styles(labels, ordered), grey: {"color": "0.8", "zorder": 1}}
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
            sure = at.seeds >= SEEDS
            axes.fill_between(series.x, low, high, where=sure, color=style["color"], alpha=alpha, linewidth=0)
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
        axes.text(0.01, 0.99, text, transform=axes.transAxes, va="top", fontsize=SMALL, color=GREY, parse_math=False)

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
            sure = known & (at.seeds >= SEEDS)
            mean, low, high = (values[sure] for values in (at.mean, at.low, at.high))
            axes.errorbar(mean, y[sure], xerr=[mean - low, high - mean], fmt="none", ecolor=color, capsize=2)
            axes.plot(at.mean[known], y[known], **points, markersize=4.4, label=series.label)
            for row, text in zip(y, map(diverged_text, seeds.T), strict=True):
                if text:
                    axes.annotate(
                        f"{series.label}: {text}", (0.01, row), xycoords=("axes fraction", "data"), va="center",
                        fontsize=SMALL, color=color, parse_math=False,
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
    """Says what marks the spread over seeds; empty where there are fewer than three."""
    counts = [len(np.asarray(series.seeds)) for panel in panels for series in panel.series]
    low, high = min(counts, default=0), max(counts, default=0)
    if high < SEEDS:
        return ""
    of = " of the logarithms" if any(panel.log for panel in panels) else ""
    return f"{mark}: one standard deviation{of} over {high if low == high else f'{low} to {high}'} seeds."


def over_periods(seeds: pd.DataFrame, period: int) -> pd.DataFrame:
    """At each round, a column, the mean over the last period; where groups take turns, a curve would be a solid bar.

    The model before the first round is in no mean.
    """
    if not period:
        return seeds
    later = seeds.loc[:, seeds.columns > 0].T
    means = later.set_axis(pd.to_timedelta(later.index, unit="s")).rolling(f"{period}s").mean()
    return seeds.mask(np.isfinite(seeds) & (seeds.columns > 0), means.set_axis(later.index).T)


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
