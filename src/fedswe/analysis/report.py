"""The result of an analysis: values for programs; tables, notes and a figure for readers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedswe.plotting import Draw, Size

Rows = Sequence[Mapping[str, Any]]  # by title of the column; those of the first row, which others may leave empty


@dataclass(frozen=True)
class Report:
    """One analysis in three forms: values, tables by title with notes, and a figure."""

    values: dict[str, Any]
    draw: Draw
    size: Size
    tables: Mapping[str, Rows] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def cells(rows: Rows) -> list[list[str]]:
    """A table for printing."""
    return [[text(row.get(column, "")) for column in rows[0]] for row in rows]


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


def or_else(value: float | None, word: str) -> float | str:
    """The value, or `word` if there is none or it is infinite."""
    return word if value is None or math.isinf(value) else value


def interval(low: float, high: float) -> str:
    return f"{short(low)} … {short(high)}"


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
