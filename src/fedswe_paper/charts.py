"""Charts of measurements over seeds, in one style: curves over rounds, bars, and final values against k."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedswe.analysis.drawing import PALETTE, count_axis, dress, shades
from fedswe.analysis.report import Draw
from fedswe.errors import require
from fedswe.plotting import save
from fedswe.results.files import write_whole

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """One curve, one kind of bar: a row per seed, a value per x. NaN is not measured, infinity never reached."""

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
        """From what was measured at each x, for which the number of seeds may differ."""
        seeds = max(map(len, columns))
        return cls(label, x, [[c[i] if i < len(c) else np.nan for c in columns] for i in range(seeds)])

    @property
    def values(self) -> Floats:
        return np.asarray(self.seeds, dtype=np.float64)


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
    """A point per x: the middle over seeds, the ends of mean ± std, and how many seeds there are."""

    middle: Floats
    low: Floats
    high: Floats
    seeds: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Chart:
    """A drawing and the numbers in it."""

    data: str  # CSV
    draw: Draw
    size: tuple[float, float]  # inches

    def save(self, folder: Path, name: str) -> list[Path]:
        """Write NAME.png, NAME.svg and NAME.csv."""
        paths = [folder / f"{name}{end}" for end in (".png", ".svg", ".csv")]
        for path in paths[:2]:
            save(self.draw, self.size, path)
        write_whole(paths[2], self.data)
        return paths


def spread(series: Series, log: bool = False) -> Spread:
    """Mean and std (n - 1) over the seeds measured; one seed has no spread, and one that never got there rules."""
    values = series.values
    if log:
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.log(values)
        values[np.isneginf(values)] = np.nan  # a zero has no place on a logarithmic axis
    never = np.isinf(values).any(0)
    known = np.ma.masked_array(values, np.isnan(values) | never)
    middle: Floats = np.where(never, np.inf, known.mean(0).filled(np.nan))
    std: Floats = known.std(0, ddof=1).filled(0.0)
    ends = middle, middle - std, middle + std
    middle, low, high = (np.exp(end) for end in ends) if log else ends
    return Spread(middle, low, high, (~np.isnan(values)).sum(0))


def curves(panels: Sequence[Panel], ordered: bool = False) -> Chart:
    """Mean lines with a band of one std over seeds; `ordered` colours a family, such as the k of FedSWE."""

    def draw(figure: Figure) -> None:
        colors = _colors(panels, ordered)
        for axes, panel in _grid(figure, panels):
            for series in panel.series:
                at, color = spread(series, panel.log), colors[series.label]
                # matplotlib leaves gaps at NaN only
                middle, low, high = (np.where(np.isfinite(v), v, np.nan) for v in (at.middle, at.low, at.high))
                axes.plot(series.x, middle, color=color, linewidth=1.3, label=series.label)
                axes.fill_between(series.x, low, high, color=color, alpha=0.15, linewidth=0)
            if panel.log:
                axes.set_yscale("log")
        _shared_legend(figure)

    return Chart(_data(panels), draw, _size(len(panels)))


def bars(panels: Sequence[Panel]) -> Chart:
    """A group of bars per x, one bar per series, with the std over seeds."""

    def draw(figure: Figure) -> None:
        colors = _colors(panels, ordered=True)
        for axes, panel in _grid(figure, panels):
            groups = sorted({x for series in panel.series for x in series.x})
            width = 0.8 / max(len(panel.series), 1)
            for place, series in enumerate(panel.series):
                at = spread(series)
                left = np.array([groups.index(x) for x in series.x]) - 0.4 + (place + 0.5) * width
                axes.bar(left, at.middle, width, color=colors[series.label], label=series.label)
                several = at.seeds > 1
                axes.errorbar(
                    left[several], at.middle[several], (at.high - at.low)[several] / 2,
                    fmt="none", ecolor="0.2", elinewidth=0.8, capsize=2,
                )  # fmt: skip
            axes.set_xticks(range(len(groups)), [f"{x:g}" for x in groups])
        _shared_legend(figure)

    return Chart(_data(panels), draw, _size(len(panels)))


def against_k(panels: Sequence[Panel], clients: int) -> Chart:
    """Points with error bars over k; the dotted line is k = m, an arrow at the top a k that never got there."""

    def draw(figure: Figure) -> None:
        colors = _colors(panels, ordered=False)
        for axes, panel in _grid(figure, panels):
            for series in panel.series:
                order = np.argsort(series.x)
                k, at, color = np.asarray(series.x, dtype=np.float64)[order], spread(series), colors[series.label]
                middle, high = at.middle[order], at.high[order]
                reached = np.isfinite(middle)
                axes.errorbar(
                    k[reached], middle[reached], high[reached] - middle[reached],
                    fmt="o-", color=color, markersize=4, linewidth=1.3, elinewidth=0.9, capsize=2, label=series.label,
                )  # fmt: skip
                never = np.isinf(middle)
                if never.any():
                    axes.plot(
                        k[never], np.full(never.sum(), 0.97), "^", color=color, markersize=7,
                        transform=axes.get_xaxis_transform(), label=f"{series.label}: never",
                    )  # fmt: skip
            axes.axvline(clients, color="0.5", linewidth=0.8, linestyle=":")
            count_axis(axes, zero=True)
            highest = max((k for series in panel.series for k in series.x), default=clients)
            axes.set_xlim(-0.15, 1.3 * max(highest, clients))  # k = 0 clear of the frame
        _shared_legend(figure)

    return Chart(_data(panels), draw, _size(len(panels)))


def _grid(figure: Figure, panels: Sequence[Panel]) -> Iterator[tuple[Axes, Panel]]:
    """Two panels to a row."""
    columns = min(len(panels), 2)
    everything = figure.subplots(-(-len(panels) // columns), columns, squeeze=False).ravel()
    for spare in everything[len(panels) :]:
        spare.set_axis_off()
    for axes, panel in zip(everything, panels, strict=False):
        dress(axes, panel.title, panel.x, panel.y)  # before anything is named: the legend is shared
        axes.set_axisbelow(True)
        if not panel.series:
            axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center", va="center", color="0.5")
        yield axes, panel


def _size(panels: int) -> tuple[float, float]:
    return 4.6 * min(panels, 2), 3.2 * -(-panels // 2) + 0.5


def _shared_legend(figure: Figure) -> None:
    named: dict[str, Artist] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    if len(named) > 1:
        figure.legend(
            named.values(), named.keys(), loc="outside lower center", ncols=min(len(named), 5), fontsize=8,
            frameon=False,
        )  # fmt: skip


def _colors(panels: Sequence[Panel], ordered: bool) -> dict[str, Any]:
    """One colour per label, the same in every panel."""
    from matplotlib import colormaps

    labels = list(dict.fromkeys(series.label for panel in panels for series in panel.series))
    if ordered:
        return dict(zip(labels, shades(len(labels)), strict=True))
    if len(labels) <= len(PALETTE):
        return dict(zip(labels, PALETTE, strict=False))
    return {label: colormaps["tab10"](place % 10) for place, label in enumerate(labels)}


def _data(panels: Sequence[Panel]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["panel", "label", "x_name", "x", "y_name", "mean", "low", "high", "seeds"])
    for panel in panels:
        for series in panel.series:
            at = spread(series, panel.log)
            for x, middle, low, high, seeds in zip(series.x, at.middle, at.low, at.high, at.seeds, strict=True):
                numbers = [f"{v:.6g}" if seeds else "" for v in (middle, low, high)]
                writer.writerow([panel.title, series.label, panel.x, f"{x:g}", panel.y, *numbers, seeds])
    return text.getvalue()
