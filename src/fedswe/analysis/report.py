"""The result of an analysis: values for programs; tables, notes and a figure for readers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fedswe.plotting import Draw, Size

Row = Mapping[str, Any]
Show = Callable[[Any], str]
Column = str | tuple[str, str] | tuple[str, str, Show]  # the title, the key in a row if it differs, and the format


@dataclass(frozen=True)
class TextTable:
    """A table for printing: every cell is a string."""

    title: str
    columns: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Report:
    """One analysis in three forms: values, tables with notes, and a figure."""

    values: dict[str, Any]
    draw: Draw
    size: Size
    tables: list[TextTable] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def introduced(self, values: dict[str, Any], notes: list[str]) -> Report:
        """The same report with further values and notes in front of its own."""
        return replace(self, values={**values, **self.values}, notes=[*notes, *self.notes])


def table(title: str, rows: Iterable[Row], columns: Sequence[Column]) -> TextTable:
    """Rows of values as a table for printing, e.g. with columns ["client", ("mean p", "p"), ("k", "k", general)]."""
    complete = [(c, c, text) if isinstance(c, str) else c if len(c) == 3 else (*c, text) for c in columns]
    cells = [[_cell(row, key, show) for _, key, show in complete] for row in rows]
    return TextTable(title, [title for title, _, _ in complete], cells)


def _cell(row: Row, key: str, show: Show) -> str:
    """The printed value; "bound.noise" is row["bound"]["noise"], and a key that a row does not have is left empty."""
    value: Any = row
    for part in key.split("."):
        if value is not None and part not in value:
            return ""
        value = None if value is None else value[part]
    return show(value)


def text(value: Any) -> str:
    """Strings and integers as they are, other numbers with four digits, a dash if there is no value."""
    return value if isinstance(value, str) else str(value) if isinstance(value, int | np.integer) else short(value)


def short(value: float | None) -> str:
    """Four digits; a dash if there is no value."""
    if value is None or math.isnan(value):
        return "—"
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


def general(value: float) -> str:
    """A parameter as the user gave it."""
    return "∞" if math.isinf(value) else f"{value:g}"


def or_else(word: str, show: Show = text) -> Show:
    """A format that prints `word` if there is no value or it is infinite."""
    return lambda value: word if value is None or math.isinf(value) else show(value)


def interval(ends: Sequence[float]) -> str:
    return f"{short(ends[0])} … {short(ends[1])}"


def plain(value: Any) -> Any:
    """The value in the types of JSON; a number that is not finite becomes null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
