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
from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from fedswe import __version__
from fedswe.errors import printable, require
from fedswe.plotting import PALETTE
from fedswe.results.table import SEEDS

Figure = dict[str, Any]  # plotly's data and layout; its graph_objects, which check each value, are slow

_SHOWN = 12  # curves of a panel; the others are drawn after a click on their names
_POINTS = 10_000  # of all curves of a figure: with more, only some of the evaluations are drawn
_FEWEST = 30  # points of a curve that are always drawn
_DASHES, _SYMBOLS = ("solid", "dash", "dot", "dashdot"), ("circle", "square", "diamond", "x", "cross")
_LARGEST = 50_000_000  # characters of a page, without plotly
_SCRIPT = files("fedswe.report").joinpath("report.js").read_text("utf-8")


@dataclass(frozen=True)
class Section:
    """Paragraphs, tables, figures, and texts that are shown as they are."""

    title: str
    paragraphs: Sequence[str] = ()
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)  # by title, of texts
    figures: Mapping[str, Figure] = field(default_factory=dict)
    images: Mapping[str, bytes] = field(default_factory=dict)  # SVG, by what they show
    listings: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    folded: bool = False


@dataclass(frozen=True)
class Report:
    title: str
    summary: Sequence[str]  # sentences
    sections: Sequence[Section] = ()
    alarms: Sequence[str] = ()
    images: Mapping[str, bytes] = field(default_factory=dict)  # beside the summary


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
    environment.filters["base64"] = lambda content: base64.b64encode(content).decode()
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
    """Means, with standard deviations over three and more seeds, a curve per panel and label.

    `numbers` has those of a chart by the name of an x axis. Menus choose the panel, the x axis, and what the y axis
    shows. The labels in `order` come first.
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
        edges = {"array": part["high"] - part["mean"], "arrayminus": part["mean"] - part["low"]}
        several = part["seeds"].min() >= SEEDS
        data.append({
            "type": "scatter", "mode": "lines+markers", "name": label, "x": part["x"], "y": part["mean"],
            **({"error_y": edges} if several and edges["array"].any() else {}),
            "line": {"color": PALETTE[place % len(PALETTE)], "dash": _DASHES[place % len(_DASHES)]},
            "marker": {"symbol": _SYMBOLS[place % len(_SYMBOLS)], "size": 5},
            "visible": panel == next(iter(y_names)) and shown[panel, label],
        })  # fmt: skip
    anew = {"xaxis.autorange": True}
    return _figure(
        data, next(iter(numbers)), next(iter(y_names.values())),
        {
            panel: [{"visible": [key[0] == panel and shown[key] for key in rows]}, {"yaxis.title.text": y}]
            for panel, y in y_names.items()
        },
        {
            name: [{"x": [table["x"].loc[at].tolist() for at in rows.values()]}, {"xaxis.title.text": name, **anew}]
            for name, table in numbers.items()
        },
        {"late rounds": [{}, {}]}  # by the script of the page
        | {
            name: [{}, {"yaxis.type": kind, "yaxis.autorange": True}]
            for name, kind in (("all rounds", "linear"), ("log axis", "log"))
        },
    )  # fmt: skip


def heat_map(shares: npt.ArrayLike, x: Sequence[str], y: Sequence[str], x_name: str, value: str) -> Figure:
    """Shares from 0 to 1, a row each; NaN is not known."""
    percent = (100 * np.asarray(shares)).astype(np.float32)
    shown = {"x": x, "y": y, "z": percent, "zmin": 0, "zmax": 100, "colorscale": "Blues", "reversescale": True}
    shown |= {"showscale": ((percent > 0) & (percent < 100)).any(), "colorbar": {"title": {"text": f"{value}, %"}}}
    figure = _figure([{"type": "heatmap", **shown}], x_name, "", x_type="category")
    figure["layout"]["yaxis"] |= {"type": "category", "autorange": "reversed", "showticklabels": False}
    return figure


def points(
    x: npt.ArrayLike, clouds: Mapping[str, npt.ArrayLike], names: Sequence[str], x_name: str, y_name: str
) -> Figure:
    """A cloud of named points for each label, of which the first two are shown; the script of the page adds trends."""
    same = {"type": "scatter", "mode": "markers", "x": x, "text": names}
    shown = [True, True, *["legendonly"] * len(clouds)]
    data = [
        same | {"name": label, "y": y, "visible": at} for (label, y), at in zip(clouds.items(), shown, strict=False)
    ]
    return _figure(data, x_name, y_name)


def _figure(
    data: list[dict[str, Any]], x_name: str, y_name: str, *menus: Mapping[str, Sequence[Any]], x_type: str = "-"
) -> Figure:
    """With the menus of which one can choose, for the script of the page."""
    layout = {
        "xaxis": {"title": {"text": x_name}, "type": x_type}, "yaxis": {"title": {"text": y_name}}, "colorway": PALETTE,
        "showlegend": data[0]["type"] == "scatter", "margin": {"t": 10, "r": 10}, "hoverlabel": {"namelength": -1},
        "legend": {"orientation": "h", "y": -0.2, "yanchor": "top", "maxheight": 0.3},
    }  # fmt: skip
    layout["updatemenus"] = [
        {"buttons": [{"label": name, "args": args} for name, args in menu.items()]} for menu in menus if len(menu) > 1
    ]
    return {"data": data, "layout": layout}
