"""What a page consists of, and the page as one HTML file: nothing is loaded, and text from data is never markup.

Its figures are drawn by plotly, one plain function for each kind.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from fedswe import __version__
from fedswe.errors import printable, require
from fedswe.plotting import BLUE, PALETTE

Figure = dict[str, Any]  # plotly's data and layout; its graph_objects, which check each value, are slow

_SHOWN = 12  # curves of a panel; the others are drawn after a click on their names
_POINTS = 10_000  # of all curves of a figure: with more, only some of the evaluations are drawn
_FEWEST = 30  # points of a curve that are always drawn
_DASHES, _SYMBOLS = ("solid", "dash", "dot", "dashdot"), ("circle", "square", "diamond", "x", "cross")
_LARGEST = 50_000_000  # characters of a page, without plotly
_SCRIPT = """
for (const figure of document.querySelectorAll("figure")) {
  const { data, layout } = JSON.parse(figure.querySelector("script").textContent);
  Plotly.newPlot(figure.querySelector("div"), data, layout, { responsive: true, displayModeBar: false });
}
document.documentElement.dataset.drawn = document.querySelectorAll(".js-plotly-plot").length;
"""


@dataclass(frozen=True)
class Section:
    """Paragraphs, tables, figures, and texts that are shown as they are."""

    title: str
    paragraphs: Sequence[str] = ()
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)  # by title, of texts
    figures: Mapping[str, Figure] = field(default_factory=dict)
    listings: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Report:
    title: str
    summary: Sequence[str]  # sentences
    sections: Sequence[Section] = ()


def to_html(report: Report) -> str:
    plotly = _plotly()
    page = _environment().get_template("report.html").render(
        report=report, version=__version__, plotly=plotly, script=Markup(_SCRIPT), policy=_policy(plotly, _SCRIPT)
    )  # fmt: skip
    size = (len(page) - len(plotly)) / 1e6
    require(size <= _LARGEST / 1e6, f"the page would have {size:.0f} MB: name fewer directories")
    return page


@lru_cache
def _environment() -> Environment:
    environment = Environment(loader=PackageLoader("fedswe.report", "."), autoescape=True, finalize=_shown)
    environment.filters["json"] = _json
    return environment


@lru_cache
def _plotly() -> Markup:
    from plotly.offline import get_plotlyjs

    return Markup(get_plotlyjs())


def _json(figure: Figure) -> Markup:
    """The figure without & and <: in its texts, they are neither HTML's nor plotly's markup."""
    from plotly.utils import PlotlyJSONEncoder

    return Markup(json.dumps(figure, cls=PlotlyJSONEncoder).replace("&", "&amp;").replace("<", "&lt;"))


def _policy(*scripts: str) -> str:
    """Only these scripts run, and nothing is loaded. Plotly sets styles, which cannot run or load anything then."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    only = f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:"
    return f"{only}; base-uri 'none'; form-action 'none'"


def _shown(value: Any) -> Any:
    """Control characters, broken code points and marks of direction as escapes; HTML has no place for them."""
    if type(value) is not str or value.isprintable():
        return value
    return "".join(c if c in "\n\t" else printable(c) for c in value)


# figures -----------------------------------------------------------------------------------------------------
def curves(numbers: Mapping[str, pd.DataFrame], order: Sequence[str] = ()) -> Figure:
    """Means with standard deviations, a curve per panel and label; by the name of an x axis, the numbers of a chart.

    Menus choose the panel, the x axis, and whether the y axis is logarithmic. The labels in `order` come first.
    """
    first = next(iter(numbers.values()))
    y_names, labels = (
        dict(zip(first["panel"], first["y_name"], strict=True)),
        [*dict.fromkeys([*order, *first["label"]])],
    )
    found = first.groupby(["panel", "label"], sort=False).groups
    rows = {}
    for key in sorted(found, key=lambda key: labels.index(key[1])):  # every so many rows, and the last; of few, all
        step = min(-(-len(first) // _POINTS), max(1, len(found[key]) // _FEWEST))
        rows[key] = found[key][::-1][::step][::-1]
    shown = {key: True if labels.index(key[1]) < _SHOWN else "legendonly" for key in rows}
    data = []
    for (panel, label), at in rows.items():
        part, place = first.loc[at], labels.index(label)
        whiskers = {"array": part["high"] - part["mean"], "arrayminus": part["mean"] - part["low"]}
        data.append({
            "type": "scatter", "mode": "lines+markers", "name": label, "x": part["x"], "y": part["mean"],
            "error_y": {**whiskers, "thickness": 1, "width": 0},
            "line": {"color": PALETTE[place % len(PALETTE)], "dash": _DASHES[place % len(_DASHES)]},
            "marker": {"symbol": _SYMBOLS[place % len(_SYMBOLS)], "size": 5},
            "visible": panel == next(iter(y_names)) and shown[panel, label],
        })  # fmt: skip
    anew = {"xaxis.autorange": True, "yaxis.autorange": True}
    return _figure(
        data, next(iter(numbers)), next(iter(y_names.values())),
        {
            panel: [{"visible": [key[0] == panel and shown[key] for key in rows]}, {"yaxis.title.text": y, **anew}]
            for panel, y in y_names.items()
        },
        {
            name: [{"x": [table["x"].loc[at].tolist() for at in rows.values()]}, {"xaxis.title.text": name, **anew}]
            for name, table in numbers.items()
        },
        {f"{kind} axis": [{}, {"yaxis.type": kind, **anew}] for kind in ("linear", "log")},
    )  # fmt: skip


def heat_map(shares: npt.ArrayLike, x: Sequence[str], y: Sequence[str], x_name: str, value: str) -> Figure:
    """Shares from 0 to 1, a row each; NaN is not known."""
    percent = (100 * np.asarray(shares)).astype(np.float32)
    bar = {"title": {"text": f"{value}, %"}}
    shown = {"x": x, "y": y, "z": percent, "zmin": 0, "zmax": 100, "colorscale": "Blues", "reversescale": True}
    figure = _figure([{"type": "heatmap", **shown, "colorbar": bar}], x_name, "", x_type="category")
    figure["layout"]["yaxis"] |= {"type": "category", "autorange": "reversed", "showticklabels": False}
    return figure


def bars(values: Mapping[str, float], x_name: str, y_name: str) -> Figure:
    bar = {"type": "bar", "x": [*values], "y": [*values.values()], "marker": {"color": BLUE}}
    return _figure([bar], x_name, y_name, x_type="category")


def points(
    x: npt.ArrayLike, clouds: Mapping[str, npt.ArrayLike], names: Sequence[str], x_name: str, y_name: str
) -> Figure:
    """A cloud of named points for each label, of which the first is shown."""
    same = {"type": "scatter", "mode": "markers", "x": x, "text": names}
    data = [same | {"name": label, "y": y, "visible": "legendonly"} for label, y in clouds.items()]
    data[0]["visible"] = True
    return _figure(data, x_name, y_name)


def _figure(
    data: list[dict[str, Any]], x_name: str, y_name: str, *menus: Mapping[str, Sequence[Any]], x_type: str = "-"
) -> Figure:
    """With the menus beside each other above it, those of which one can choose."""
    real = [menu for menu in menus if len(menu) > 1]
    place = {"xanchor": "left", "y": 1.02, "yanchor": "bottom", "pad": {"r": 10}}
    layout = {
        "xaxis": {"title": {"text": x_name}, "type": x_type}, "yaxis": {"title": {"text": y_name}}, "colorway": PALETTE,
        "showlegend": data[0]["type"] == "scatter", "margin": {"t": 60, "r": 10}, "hoverlabel": {"namelength": -1},
        "legend": {"orientation": "h", "y": -0.2, "yanchor": "top", "maxheight": 0.3},
    }  # fmt: skip
    layout["updatemenus"] = [
        place
        | {"x": i / len(real), "buttons": [{"label": n, "method": "update", "args": args} for n, args in menu.items()]}
        for i, menu in enumerate(real)
    ]
    return {"data": data, "layout": layout}
