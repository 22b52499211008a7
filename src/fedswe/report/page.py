"""What a page consists of, and the page as one HTML file: nothing is loaded, and text from data is never markup."""

from __future__ import annotations

import base64
import hashlib
import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from fedswe import __version__
from fedswe.errors import require
from fedswe.report.charts import Figure

_LARGEST = 50_000_000  # characters of a page, without plotly
_TURNING = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI")  # marks that turn the direction of what follows
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
    from plotly.io import to_json

    text = json.dumps(json.loads(to_json(figure, validate=False)))  # plotly's own has "<" as an escape
    return Markup(text.replace("&", "&amp;").replace("<", "&lt;"))


def _policy(*scripts: str) -> str:
    """Only these scripts run, and nothing is loaded. Plotly sets styles, which cannot run or load anything then."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    only = f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:"
    return f"{only}; base-uri 'none'; form-action 'none'"


def _shown(value: Any) -> Any:
    """Control characters, broken code points and marks of direction as escapes; HTML has no place for them."""
    if type(value) is not str:
        return value
    return "".join(c if c in "\n\t" or not _is_control(c) else ascii(c)[1:-1] for c in value)


def _is_control(c: str) -> bool:
    return unicodedata.category(c) in ("Cc", "Cs") or unicodedata.bidirectional(c) in _TURNING
