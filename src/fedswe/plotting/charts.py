"""Charts of values over seeds: curves with a band, bars, and rows of dots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fedswe.errors import require
from fedswe.plotting.end_labels import LINE_HEIGHT, End, label_ends, line_count
from fedswe.plotting.files import Draw, Size, csv_text, save
from fedswe.plotting.style import SMALL, WIDTHS, caption, format_axes, line_styles, log_axis, message
from fedswe.results.files import write_whole

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]

_PANEL_HEIGHT = 2.3  # inches
_LEGEND_COLUMNS = 5
_MARKS = 6  # markers on a curve
_FEW = 6  # a curve with fewer points has no late part


@dataclass(frozen=True)
class Series:
    """One curve, or one bar per group: a row per seed, a value per x.

    NaN is not measured, infinity never reached or diverged.
    """

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
    finish: Callable[[Figure], None] | None = None,
    height: float = _PANEL_HEIGHT,
) -> Chart:
    """Panels of this height, two to a row where they fit; `plot` draws one, and `finish` what lies beside them.

    Without `finish` there is one legend for all panels.
    """
    columns = min(len(panels), 2 if width > WIDTHS["single"] else 1)
    rows = -(-len(panels) // columns)
    labels = len({series.label for panel in panels for series in panel.series})

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
        if finish is None:
            _shared_legend(figure)
        else:
            finish(figure)

    legend = 0.2 * -(-labels // _LEGEND_COLUMNS) if finish is None else 0.0
    notes = 0.13 * (1 + len(note) * 0.055 // width) if note else 0.0
    return Chart(_numbers(panels), draw, (width, height * rows + legend + notes))


def curves(
    panels: Sequence[Panel],
    ordered: bool = False,
    note: str = "",
    width: float = WIDTHS["double"],
    y_range: tuple[float, float] | None = None,
) -> Chart:
    """Mean curves with a band of one std over seeds, named at their right ends; `ordered` colours a family.

    A curve has no point where a seed is infinite. If one is at the end, a line below the name says so.
    """
    styles = line_styles((series.label for panel in panels for series in panel.series), ordered)
    many = max((len(panel.series) for panel in panels), default=0)
    alpha = 0.15 if many <= 6 else 0.06  # many bands hide the curves

    def plot(axes: Axes, panel: Panel) -> None:
        for place, series in enumerate(panel.series):
            at, style = spread(series, panel.log), styles[series.label]
            # matplotlib leaves gaps at NaN only
            mean, low, high = (np.where(np.isfinite(v), v, np.nan) for v in (at.mean, at.low, at.high))
            marks = _marks(np.asarray(series.x, dtype=np.float64), place / len(panel.series))
            axes.plot(
                series.x, mean, linewidth=1.1, label=series.label, markersize=3.2, markeredgewidth=0, markevery=marks,
                **style,
            )  # fmt: skip
            axes.fill_between(series.x, low, high, color=style["color"], alpha=alpha, linewidth=0)
        if panel.log and any(np.isfinite(spread(series, log=True).mean).any() for series in panel.series):
            axes.set_yscale("log")  # matplotlib refuses it where there is no number to show
        if y_range is not None:
            axes.set_ylim(*y_range)
        if axes.get_yscale() == "log":
            log_axis(axes.yaxis)
        axes.margins(x=0.02)

    def name(figure: Figure) -> None:
        ends = []
        for axes, panel in zip(figure.axes, panels, strict=False):
            named = []
            for series, line in zip(panel.series, axes.get_lines(), strict=True):
                x, y = (np.asarray(values, dtype=np.float64) for values in line.get_data())
                last = np.flatnonzero(np.isfinite(y))[-1:]
                at = (float(x[last[0]]), float(y[last[0]])) if last.size else None
                named.append(End(_end_name(series, panel.log), at, styles[series.label]))
            if panel.series and all(end.at is None for end in named):
                message(axes, "nothing to draw")
            ends.append((axes, named))
        label_ends(figure, ends)

    lines = max((sum(line_count(_end_name(s, panel.log)) for s in panel.series) for panel in panels), default=0)
    height = max(_PANEL_HEIGHT, lines * LINE_HEIGHT / 72 + 0.7)  # 0.7: title and axis
    note = " ".join(filter(None, [note, spread_note(panels, "Line: mean; band")]))
    return chart(panels, plot, note, width, name, height)


def _end_name(series: Series, log: bool) -> str:
    """The label; below it, how many seeds diverged, or that there is nothing to draw."""
    note = diverged_text(np.asarray(series.seeds, dtype=np.float64)[:, -1])
    if not note and not np.isfinite(spread(series, log).mean).any():
        note = "no finite values"
    return f"{series.label}\n{note}" if note else series.label


def _marks(x: Floats, shift: float) -> list[int]:
    """Points at equal distances in x, however dense the points are; those of another curve are shifted."""
    places = x[0] + (x[-1] - x[0]) * (np.arange(_MARKS) + shift) / _MARKS
    return [int(i) for i in np.unique(np.minimum(np.searchsorted(x, places), len(x) - 1))]


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
        from matplotlib.transforms import blended_transform_factory

        for place, series in enumerate(panel.series):
            style, at = styles[series.label], spread(series, panel.log)
            lost = [diverged_text(of_row) for of_row in np.asarray(series.seeds, dtype=np.float64).T]
            y = np.asarray(series.x, dtype=np.float64) + apart * (place - (len(panel.series) - 1) / 2)
            known = np.isfinite(at.mean)
            for seed in np.asarray(series.seeds, dtype=np.float64):
                shown = known & np.isfinite(seed)
                axes.plot(
                    seed[shown], y[shown], linestyle="none", marker=style["marker"], markersize=3.4, alpha=0.55,
                    markerfacecolor="none", markeredgecolor=style["color"], markeredgewidth=0.6,
                )  # fmt: skip
            mean, low, high = (values[known] for values in (at.mean, at.low, at.high))
            axes.errorbar(
                mean, y[known], xerr=[mean - low, high - mean], fmt="none",
                ecolor=style["color"], elinewidth=1.0, capsize=2,
            )  # fmt: skip
            axes.plot(
                mean, y[known], linestyle="none", marker=style["marker"], markersize=4.4,
                color=style["color"], label=series.label,
            )  # fmt: skip
            for row, text in zip(y, lost, strict=True):
                if text:
                    axes.text(
                        0.01, row, f"{series.label}: {text}", fontsize=SMALL, color=style["color"], va="center",
                        transform=blended_transform_factory(axes.transAxes, axes.transData), parse_math=False,
                    )  # fmt: skip
        if panel.log:
            axes.set_xscale("log")
            log_axis(axes.xaxis)
        axes.set_yticks(range(len(rows)), rows, parse_math=False)
        axes.set_ylim(len(rows) - 0.4, -0.6)

    note = " ".join(filter(None, [note, spread_note([panel], "Filled: mean; open: seeds; whisker")]))
    apart_inches = 0.13 if any(np.isinf(series.seeds).any() for series in panel.series) else 0.08  # text is taller
    height = max(1.3, len(rows) * (0.07 + apart_inches * len(panel.series)) + 0.6)
    return chart([panel], plot, note, width, height=height)


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


def _shared_legend(figure: Figure) -> None:
    named: dict[str, Artist] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    if len(named) > 1:
        figure.legend(
            named.values(), named.keys(), loc="outside upper center", ncols=min(len(named), _LEGEND_COLUMNS),
            frameon=False, handlelength=2,
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
