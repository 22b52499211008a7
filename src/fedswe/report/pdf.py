"""A report for print: summary, tables and charts as pages of a PDF, drawn by matplotlib."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from fedswe.plotting import caption, render, styled
from fedswe.report.blocks import Cell, Report, Table, Text
from fedswe.report.charts import Chart

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PAGE = (6.9, 9.76)  # inches: the shape of A4, as wide as the figures; a chart has a page of its own height
_LINES, _WIDTH = 72, 92  # lines of a page of text, characters of a line
_FONT = 7.5  # points
_CELL, _ROWS = 28, 60  # characters of a cell, rows of a table
_MARKS = {"first": " 1st", "second": " 2nd", "unclear": " ?", "": ""}


def to_pdf(report: Report) -> bytes:
    """Without configurations; of each chart the first position of its switches. Equal reports give equal bytes."""
    from matplotlib.backends.backend_pdf import PdfPages

    content = io.BytesIO()
    with styled(), PdfPages(content, metadata={"Title": _plain(report.title), "CreationDate": None}) as pages:
        for figure in _pages(report):
            pages.savefig(figure)
    return content.getvalue()


def _pages(report: Report) -> Iterator[Figure]:
    lines = [_plain(report.title), ""]
    for sentence in report.summary:
        lines += textwrap.wrap(_plain(sentence), _WIDTH, initial_indent="- ", subsequent_indent="  ")
    for section in report.sections:
        lines += ["", _plain(section.title), "=" * len(_plain(section.title)), ""]
        for block in section.blocks:
            if isinstance(block, Text):
                lines += [part for line in block.lines for part in textwrap.wrap(_plain(line), _WIDTH)]
            elif isinstance(block, Table):
                lines += ["", *_table(block), ""]
            elif isinstance(block, get_args(Chart)):
                yield from _text(lines)
                lines = []
                yield _chart(block)
    yield from _text(lines)


def _text(lines: Sequence[str]) -> Iterator[Figure]:
    """Pages of text; none for lines that are all empty."""
    while lines and not lines[0]:
        lines = lines[1:]
    for first in range(0, len(lines), _LINES):
        page = "\n".join(lines[first : first + _LINES])

        def draw(figure: Figure, page: str = page) -> None:
            figure.subplots().set_axis_off()  # the layout wants axes
            figure.text(0.05, 0.96, page, va="top", family="monospace", fontsize=_FONT, parse_math=False)

        yield render(draw, _PAGE)


def _chart(chart: Chart) -> Figure:
    chart = replace(chart, note=_plain(chart.note))
    draw, (width, height) = chart.drawing()
    captioned = hasattr(chart, "abscissas")  # curves write their own

    def titled(figure: Figure) -> None:
        figure.suptitle(_plain(chart.title), x=0.01, ha="left", fontsize=9, parse_math=False)
        draw(figure)
        if not captioned:
            caption(figure, chart.note)

    return render(titled, (width, height + 0.3))


def _table(table: Table) -> list[str]:
    rows = [[_shown(cell) for cell in row] for row in table.rows[:_ROWS]]
    widths = [max(map(len, column)) for column in zip(table.columns, *rows, strict=True)]
    widths = [min(width, _CELL) for width in widths]
    lines = [_plain(table.title)]
    for row in (list(table.columns), *rows):
        cells = [
            f"{cell[:width]:<{width}}" if i < table.words else f"{cell[:width]:>{width}}"
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines += textwrap.wrap("  ".join(cells), _WIDTH + 20, subsequent_indent="    ", drop_whitespace=False) or [""]
    if len(table.rows) > _ROWS:
        lines.append(f"({len(table.rows) - _ROWS} more rows are in the page)")
    return [*lines, *textwrap.wrap(_plain(table.note), _WIDTH)]


def _shown(cell: str | Cell) -> str:
    return _plain(cell) if isinstance(cell, str) else _plain(cell.text) + _MARKS[cell.mark]


def _plain(text: str) -> str:
    """In one line, without control characters and marks of direction, for which fonts have no letters."""
    return "".join(c for c in text if c.isprintable())
