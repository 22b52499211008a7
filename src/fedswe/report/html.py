"""A report as one HTML file: nothing is loaded from anywhere, and text of the user's is never markup or code."""

from __future__ import annotations

import base64
import hashlib
import json
import unicodedata
from html import escape
from importlib.resources import files
from string import Template
from typing import get_args

from fedswe import __version__
from fedswe.errors import require
from fedswe.report.blocks import Block, Cell, Listing, Report, Table, Text
from fedswe.report.charts import Chart, Curves

_DIRECTIONS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI")
_LARGEST = 50_000_000  # characters of a page, without plotly
_MARKS = {"first": "1st", "second": "2nd", "unclear": "?"}


def to_html(report: Report) -> str:
    from plotly.offline import get_plotlyjs

    charts: list[dict[str, object]] = []
    sections = [
        f'<section id="{_id(i)}" aria-labelledby="{_id(i)}-title">\n'
        f'<h2 id="{_id(i)}-title" dir="auto">{text(s.title)}</h2>\n'
        + "\n".join(_block(block, charts) for block in s.blocks)
        + "\n</section>"
        for i, s in enumerate(report.sections)
    ]
    contents = [("summary", "Summary"), *((_id(i), s.title) for i, s in enumerate(report.sections))]
    page = files(__package__)
    data = embedded(charts)
    size = len(data) + sum(map(len, sections))
    require(size <= _LARGEST, f"the page would have {size / 1e6:.0f} MB: name fewer directories")
    scripts = {"plotly": get_plotlyjs(), "script": (page / "report.js").read_text(encoding="utf-8")}
    return Template((page / "report.html").read_text(encoding="utf-8")).substitute(
        policy=_policy(*scripts.values()),
        title=text(report.title),
        style=(page / "report.css").read_text(encoding="utf-8"),
        version=__version__,
        contents="".join(f'<li><a href="#{id_}" dir="auto">{text(title)}</a></li>' for id_, title in contents),
        summary="".join(f"<li>{text(sentence)}</li>" for sentence in report.summary),
        sections="\n".join(sections),
        data=data,
        **scripts,
    )


def _policy(*scripts: str) -> str:
    """Only these scripts run, and nothing is loaded. Plotly sets styles, which cannot run or load anything then."""
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def embedded(value: object) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c").replace(">", "\\u003e")


def text(value: str) -> str:
    """Text as HTML. Shown as escapes are control characters and broken code points, which HTML has no place for, and
    marks that would turn the direction of what follows."""
    return escape("".join(c if c in "\n\t" or not _is_control(c) else _escaped(c) for c in value))


def _is_control(c: str) -> bool:
    return unicodedata.category(c) in ("Cc", "Cs") or unicodedata.bidirectional(c) in _DIRECTIONS


def _escaped(c: str) -> str:
    return c.encode("unicode_escape", "backslashreplace").decode()


def _id(i: int) -> str:
    return f"section-{i + 1}"


def _block(block: Block, charts: list[dict[str, object]]) -> str:
    if isinstance(block, Text):
        return "\n".join(f"<p>{text(line)}</p>" for line in block.lines)
    if isinstance(block, Listing):
        title = f'<summary dir="auto">{text(block.title)}</summary>'
        return f'<details{" open" * block.opened}>{title}<pre tabindex="0">{text(block.text)}</pre></details>'
    if isinstance(block, Table):
        return _table(block)
    assert isinstance(block, get_args(Chart))
    id_ = f"chart-{len(charts) + 1}"
    charts.append({"id": id_, **block.json()})
    thinned = isinstance(block, Curves) and block.step > 1
    words = " ".join(filter(None, [block.note, f"One of {block.step} evaluations is drawn." if thinned else ""]))
    note = f'\n<p class="note">{text(words)}</p>' if words else ""
    return (
        f'<figure id="{id_}">\n<figcaption dir="auto">{text(block.title)}</figcaption>\n<div class="controls"></div>\n'
        f'<div class="plot" role="img" aria-label="{text(block.title)}"></div>{note}\n</figure>'
    )


def _table(table: Table) -> str:
    marked = [
        any(isinstance(row[i], Cell) and row[i].mark for row in table.rows)  # type: ignore[union-attr]
        for i in range(len(table.columns))
    ]
    head = "".join(_cell("th", name, i < table.words, ' scope="col"') for i, name in enumerate(table.columns))
    rows = [
        "<tr>"
        + "".join(
            _cell("th" if i == 0 else "td", cell, i < table.words, ' scope="row"' if i == 0 else "", marked[i])
            for i, cell in enumerate(row)
        )
        + "</tr>"
        for row in table.rows
    ]
    note = f'\n<p class="note">{text(table.note)}</p>' if table.note else ""
    return (
        f'<div class="tabular">\n<p dir="auto">{text(table.title)}</p>\n'
        f'<div class="scroll" role="region" tabindex="0" aria-label="{text(table.title)}">\n'
        f"<table>\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{chr(10).join(rows)}\n</tbody>\n</table>\n</div>{note}\n</div>"
    )


def _cell(tag: str, cell: str | Cell, word: bool, scope: str, marked: bool = False) -> str:
    kind = ' class="word" dir="auto"' if word else ""
    content = cell if isinstance(cell, str) else cell.text
    mark = cell.mark if isinstance(cell, Cell) else ""
    shown = f'<span class="mark {mark or "none"}">{_MARKS.get(mark, "")}</span>' if marked else ""
    return f"<{tag}{kind}{scope}>{text(content)}{shown}</{tag}>"
