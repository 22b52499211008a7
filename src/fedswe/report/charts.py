"""The figures of a page, by plotly: one plain function for each kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fedswe.plotting import BLUE, PALETTE

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_SHOWN = 12  # curves of a panel; the others are drawn after a click on their names
_POINTS = 20_000  # of all curves of a figure: with more, only some of the evaluations are drawn
_FEWEST = 30  # points of a curve that are always drawn
_DASHES, _SYMBOLS = ("solid", "dash", "dot", "dashdot"), ("circle", "square", "diamond", "x", "cross")


def curves(numbers: Mapping[str, pd.DataFrame], order: Sequence[str] = ()) -> Figure:
    """Means with standard deviations, a curve per panel and label; by the name of an x axis, the numbers of a chart.

    Menus choose the panel, the x axis, and whether the y axis is logarithmic. The labels in `order` come first.
    """
    first = next(iter(numbers.values()))
    labels, panels = list(dict.fromkeys([*order, *first["label"]])), list(dict.fromkeys(first["panel"]))
    found = first.groupby(["panel", "label"], sort=False).groups
    rows = {
        key: _thinned(found[key], -(-len(first) // _POINTS)) for key in sorted(found, key=lambda k: labels.index(k[1]))
    }
    shown = {key: True if labels.index(key[1]) < _SHOWN else "legendonly" for key in rows}
    figure = empty(next(iter(numbers)), first["y_name"].iloc[0])
    for (panel, label), at in rows.items():
        part, place = first.loc[at], labels.index(label)
        whiskers = {"array": part["high"] - part["mean"], "arrayminus": part["mean"] - part["low"]}
        figure.add_scatter(
            x=part["x"], y=part["mean"], name=label, mode="lines+markers", marker_size=5,
            line={"color": PALETTE[place % len(PALETTE)], "dash": _DASHES[place % len(_DASHES)]},
            marker_symbol=_SYMBOLS[place % len(_SYMBOLS)], visible=panel == panels[0] and shown[panel, label],
            error_y={**whiskers, "thickness": 1, "width": 0},
        )  # fmt: skip
    y_names = dict(zip(first["panel"], first["y_name"], strict=True))
    anew = {"xaxis.autorange": True, "yaxis.autorange": True}
    _menus(
        figure,
        {
            panel: [{"visible": [key[0] == panel and shown[key] for key in rows]}, {"yaxis.title.text": y, **anew}]
            for panel, y in y_names.items()
        },
        {
            name: [{"x": [frame["x"].loc[at].tolist() for at in rows.values()]}, {"xaxis.title.text": name, **anew}]
            for name, frame in numbers.items()
        },
        {f"{kind} axis": [{}, {"yaxis.type": kind, **anew}] for kind in ("linear", "log")},
    )
    return figure


def heat_map(shares: npt.ArrayLike, x: Sequence[str], y: Sequence[str], x_name: str, value: str) -> Figure:
    """Shares from 0 to 1, a row each; NaN is not known."""
    figure = empty(x_name, "")
    percent = (100 * np.asarray(shares)).astype(np.float32)
    figure.add_heatmap(
        z=percent, x=x, y=y, zmin=0, zmax=100, colorscale="Blues", colorbar={"title": {"text": f"{value}, %"}}
    )
    return figure.update_yaxes(type="category", autorange="reversed", showticklabels=False).update_xaxes(
        type="category"
    )


def bars(values: Mapping[str, float], x_name: str, y_name: str) -> Figure:
    figure = empty(x_name, y_name)
    figure.add_bar(x=list(values), y=list(values.values()), marker_color=BLUE)
    return figure.update_xaxes(type="category")


def points(
    x: npt.ArrayLike, clouds: Mapping[str, npt.ArrayLike], names: Sequence[str], x_name: str, y_name: str
) -> Figure:
    """A cloud of named points for each label, of which the first is shown."""
    figure = empty(x_name, y_name)
    for i, (label, y) in enumerate(clouds.items()):
        figure.add_scatter(x=x, y=y, text=names, name=label, mode="markers", visible="legendonly" if i else True)
    return figure.update_layout(showlegend=True)


def empty(x_name: str, y_name: str) -> Figure:
    from plotly.graph_objects import Figure

    figure = Figure(layout={"template": "plotly_white", "margin": {"t": 60, "r": 10}, "hoverlabel": {"namelength": -1}})
    figure.update_layout(legend={"orientation": "h", "y": -0.2, "yanchor": "top", "maxheight": 0.3}, colorway=PALETTE)
    return figure.update_xaxes(title_text=x_name).update_yaxes(title_text=y_name)


def _menus(figure: Figure, *menus: Mapping[str, Sequence[Any]]) -> None:
    """Beside each other above the figure, those of which one can choose."""
    real = [menu for menu in menus if len(menu) > 1]
    for i, menu in enumerate(real):
        buttons = [{"label": name, "method": "update", "args": list(args)} for name, args in menu.items()]
        place = {"x": i / len(real), "xanchor": "left", "y": 1.02, "yanchor": "bottom", "pad": {"r": 10}}
        figure.update_layout(updatemenus=[*figure.layout.updatemenus, {"buttons": buttons, **place}])


def _thinned(rows: pd.Index[int], step: int) -> pd.Index[int]:
    """Every so many, and the last; of few, all."""
    return rows[::-1][:: min(step, max(1, len(rows) // _FEWEST))][::-1]
