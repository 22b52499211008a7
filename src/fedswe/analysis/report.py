"""What a report is: values for programs, sheets and notes for readers, and a drawing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Draw = Callable[["Figure"], None]


@dataclass(frozen=True)
class Sheet:
    """A table; cells are written as they shall appear."""

    title: str
    columns: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Report:
    """One answer in three forms."""

    values: dict[str, Any]
    draw: Draw
    size: tuple[float, float]  # of the drawing, in inches
    sheets: list[Sheet] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def introduced(self, values: dict[str, Any], notes: list[str]) -> Report:
        """The same report after some values and notes that come first."""
        return replace(self, values={**values, **self.values}, notes=[*notes, *self.notes])


def short(value: float | None) -> str:
    """Four digits, enough to read; a dash where there is no value."""
    if value is None or math.isnan(value):
        return "—"
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


def interval(lower: float, upper: float) -> str:
    return f"{short(lower)} … {short(upper)}"


def plain(value: Any) -> Any:
    """The value in types JSON has; what is not a finite number becomes null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
