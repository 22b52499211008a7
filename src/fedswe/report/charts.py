"""The charts of a report: as data for the page, which draws them with plotly, and drawn by matplotlib for print."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedswe.plotting import BLUE, MARKERS, Draw, Panel, Size, curves, format_axes, late_range, line_styles, spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]
Key = tuple[str, ...]  # an option of every switch
Drawing = tuple[Draw, Size]

_NUMBERS = 30_000  # on all curves of a chart: with more, only some of the evaluations are drawn
_FEWEST = 30  # points of a curve that are always drawn
_SYMBOLS = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "triangle-down",
    "cross",
    "x",
    "triangle-left",
    "triangle-right",
)
_SIZE = (6.9, 3.2)  # inches


@dataclass(frozen=True)
class Switch:
    """A choice that the reader has."""

    name: str
    options: Mapping[str, str]  # to what is written beside it


@dataclass(frozen=True)
class View:
    """The curves of one position of the switches; `x` has for every abscissa the positions of every curve."""

    panel: Panel
    x: Mapping[str, Sequence[Sequence[float]]]


@dataclass(frozen=True)
class Curves:
    title: str
    switches: Sequence[Switch]
    abscissas: Mapping[str, str]  # to the name of the axis
    views: Mapping[Key, View]
    note: str = ""
    order: Sequence[str] = ()  # the curves, the best first; empty: as they come

    def json(self) -> dict[str, Any]:
        panels = [view.panel for view in self.views.values()]
        names = list(dict.fromkeys(series.label for panel in panels for series in panel.series))
        styles = line_styles(names)
        positions = _Interned()
        step = self.step
        views = {}
        for key, view in self.views.items():
            views["|".join(key)] = {
                "y": view.panel.y,
                "log": view.panel.log,
                "series": [
                    {
                        "name": series.label,
                        "x": {
                            name: positions.number(rounded(_thin(np.asarray(of[i]), step)))
                            for name, of in view.x.items()
                        },
                        **_curve(series, view.panel.log, step),
                    }
                    for i, series in enumerate(view.panel.series)
                ],
            }  # fmt: skip
        return {
            "kind": "curves",
            "switches": _switches(self.switches),
            "abscissas": dict(self.abscissas),
            "styles": {
                name: {"color": s["color"], "dash": _dash(s["linestyle"]), "symbol": _symbol(s["marker"])}
                for name, s in styles.items()
            },
            "order": [*(name for name in self.order if name in styles), *(n for n in names if n not in self.order)],
            "positions": positions.all,
            "views": views,
        }  # fmt: skip

    @property
    def step(self) -> int:
        """Every so many evaluations are drawn."""
        drawn = [
            (len(s.x), 1 if len(np.asarray(s.seeds)) == 1 else 3) for v in self.views.values() for s in v.panel.series
        ]
        step = max(1, -(-sum(points * each for points, each in drawn) // _NUMBERS))
        return min(step, max(1, max((points for points, _ in drawn), default=1) // _FEWEST))

    def drawing(self) -> Drawing:
        """A panel for each view of the first switch's first option; with one switch, for every view."""
        chosen = [
            view.panel
            for key, view in self.views.items()
            if len(key) < 2 or key[0] == next(iter(self.switches[0].options))
        ]
        chart = curves(chosen, note=self.note, y_range=late_range(chosen) if len({p.y for p in chosen}) == 1 else None)
        return chart.draw, chart.size


@dataclass(frozen=True)
class HeatMap:
    """Shares from 0 to 1, a row each; NaN is not known."""

    title: str
    shares: Floats  # [rows, columns]
    rows: Sequence[str]  # what a row is, in words
    columns: Sequence[str]
    x: str
    y: str
    value: str  # what a share is of
    note: str = ""

    def json(self) -> dict[str, Any]:
        known = np.isfinite(self.shares)
        cells = np.where(known, np.rint(100 * np.where(known, self.shares, 0)), 255).astype(np.uint8)
        return {
            "kind": "heat",
            "switches": [],
            "cells": base64.b64encode(cells.tobytes()).decode(),
            "rows": list(self.rows),
            "columns": list(self.columns),
            "x": self.x,
            "y": self.y,
            "value": self.value,
        }

    def drawing(self) -> Drawing:
        def draw(figure: Figure) -> None:
            axes = figure.subplots()
            image = axes.imshow(
                100 * self.shares, aspect="auto", cmap="Blues", vmin=0, vmax=100, interpolation="nearest"
            )
            format_axes(axes, "", self.x, self.y)
            axes.grid(False)
            _ticks(axes, self.columns)
            axes.set_yticks([])
            figure.colorbar(image, label=f"{self.value}, %")

        return draw, _SIZE


@dataclass(frozen=True)
class Bars:
    title: str
    labels: Sequence[str]
    values: Sequence[float]
    x: str
    y: str
    note: str = ""

    def json(self) -> dict[str, Any]:
        return {
            "kind": "bars",
            "switches": [],
            "labels": list(self.labels),
            "values": rounded(self.values),
            "x": self.x,
            "y": self.y,
        }

    def drawing(self) -> Drawing:
        def plot(axes: Axes) -> None:
            axes.bar(range(len(self.values)), self.values, color=BLUE)
            _ticks(axes, self.labels)

        return _panel(plot, "", self.x, self.y)


@dataclass(frozen=True)
class Points:
    """A cloud of points for every position of the switches."""

    title: str
    switches: Sequence[Switch]
    at: Sequence[float]  # x of every point
    views: Mapping[Key, Sequence[float]]  # y of every point
    names: Sequence[str]  # of the points
    x: str
    y: str
    note: str = ""

    def json(self) -> dict[str, Any]:
        return {
            "kind": "points",
            "switches": _switches(self.switches),
            "at": rounded(self.at),
            "views": {"|".join(key): rounded(y) for key, y in self.views.items()},
            "names": list(self.names),
            "x": self.x,
            "y": self.y,
        }

    def drawing(self) -> Drawing:
        key, y = next(iter(self.views.items()))

        def plot(axes: Axes) -> None:
            axes.plot(self.at, y, linestyle="none", marker=MARKERS[0], markersize=3, color=BLUE, alpha=0.7)

        return _panel(plot, _named(self.switches, key), self.x, self.y)


@dataclass(frozen=True)
class Intervals:
    """A bar with an interval per row, for every position of the switches; NaN is an interval that is not known."""

    title: str
    switches: Sequence[Switch]
    views: Mapping[Key, tuple[list[str], list[float], list[float]]]  # names, values, halves of intervals
    x: str
    note: str = ""

    def json(self) -> dict[str, Any]:
        views = {
            "|".join(key): {"names": list(names), "values": rounded(values), "halves": rounded(halves)}
            for key, (names, values, halves) in self.views.items()
        }
        return {"kind": "intervals", "switches": _switches(self.switches), "views": views, "x": self.x}

    def drawing(self) -> Drawing:
        key, (names, values, halves) = next(iter(self.views.items()))

        def plot(axes: Axes) -> None:
            axes.barh(range(len(names)), values, xerr=np.nan_to_num(halves), color=BLUE, ecolor="0.3", capsize=2)
            axes.set_yticks(range(len(names)), list(names), parse_math=False)
            axes.invert_yaxis()

        return _panel(plot, _named(self.switches, key), self.x, "", max(1.6, 0.18 * len(names) + 0.8))


Chart = Curves | HeatMap | Bars | Points | Intervals


class _Interned:
    """Lists that many curves share, stored once."""

    def __init__(self) -> None:
        self.all: list[list[float | None]] = []
        self._known: dict[tuple[float | None, ...], int] = {}

    def number(self, values: list[float | None]) -> int:
        key = tuple(values)
        if key not in self._known:
            self._known[key] = len(self.all)
            self.all.append(values)
        return self._known[key]


def rounded(values: npt.ArrayLike) -> list[float | None]:
    """With five digits; null where a value is not finite."""
    found: list[float | None] = []
    for value in np.asarray(values, dtype=np.float64).tolist():
        if not np.isfinite(value):
            found.append(None)
        else:
            short = float(f"{value:.5g}")
            found.append(int(short) if short.is_integer() and abs(short) < 1e15 else short)
    return found


def _curve(series: Any, log: bool, step: int) -> dict[str, Any]:
    at, seeds = spread(series, log), len(np.asarray(series.seeds))
    found: dict[str, Any] = {"mean": rounded(_thin(at.mean, step))}
    if seeds > 1:
        found |= {"low": rounded(_thin(at.low, step)), "high": rounded(_thin(at.high, step))}
    return found


def _thin(values: Floats, step: int) -> Floats:
    """Every so many values, and the last."""
    kept = np.arange(len(values) - 1, -1, -step)[::-1]
    return values[kept]


def _dash(line: Any) -> str:
    """The name that plotly has for a line of fedswe.plotting."""
    if isinstance(line, str):
        return line
    lengths = line[1]
    return "dashdot" if len(lengths) > 2 else "dash" if lengths[0] > 3 else "dot"


def _symbol(marker: str) -> str:
    return _SYMBOLS[MARKERS.index(marker)]


def _switches(switches: Sequence[Switch]) -> list[dict[str, Any]]:
    return [{"name": s.name, "options": [[key, label] for key, label in s.options.items()]} for s in switches]


def _named(switches: Sequence[Switch], key: Key) -> str:
    """A position of the switches in words."""
    return ", ".join(switch.options[option] for switch, option in zip(switches, key, strict=True))


def _panel(plot: Callable[[Axes], None], title: str, x: str, y: str, height: float = _SIZE[1]) -> Drawing:
    """A chart of one panel."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        plot(axes)
        format_axes(axes, title, x, y)

    return draw, (_SIZE[0], height)


def _ticks(axes: Axes, labels: Sequence[str]) -> None:
    """At most a dozen labels, at equal distances."""
    places = range(0, len(labels), max(1, -(-len(labels) // 12)))
    axes.set_xticks(list(places), [labels[i] for i in places], parse_math=False)
