"""What commands print: text, tables, JSON, and progress as a bar on a terminal or as plain lines elsewhere.

Colours are rich's decision: none without a terminal or with NO_COLOR.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic_core import to_json
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text


def _new(width: int | None = None) -> Console:
    return Console(highlight=False, soft_wrap=True, markup=False, emoji=False, width=width)


console = _new()

_LOG_WIDTH, _WIDEST = 120, 1000  # of tables of texts, and of numbers, that are not printed on a terminal
_LOG_SECONDS = 10  # between lines of progress that are not printed on a terminal


def print_json(value: Any) -> None:
    """One JSON document; numbers that are not finite become null."""

    def plain(other: Any) -> Any:
        """An array as a list, a table as a list of its rows."""
        return other.to_dict("records") if hasattr(other, "to_dict") else other.tolist()

    print(to_json(value, inf_nan_mode="null", fallback=plain).decode())


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str | Text]], numbers: bool = False, lines: bool = False
) -> None:
    """With `numbers`, all columns but the first are aligned to the right; with `lines`, rows are separated."""
    table = Table(title=title, title_justify="left", show_lines=lines)
    for i, column in enumerate(columns):
        right = numbers and i > 0
        table.add_column(column, justify="right" if right else "left", no_wrap=i == 0, overflow="fold")
    for row in rows:
        table.add_row(*row)
    wide = _WIDEST if numbers else max(console.width, _LOG_WIDTH)
    _new(width=None if console.is_terminal else wide).print(table)


class RoundProgress:
    """Rounds run, rounds to run, the time left, and a note such as the latest score."""

    def __init__(self, unit: str = "rounds", on: Console = console) -> None:
        self._unit, self._console = unit, on
        self._began = self._printed = time.monotonic()
        self._first: int | None = None  # rounds that were done before this process began
        self._bar = Progress(
            TextColumn(f"{unit} {{task.completed}}/{{task.total}}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[left]}  {task.fields[note]}", markup=False),
            console=on,
            disable=not on.is_terminal,
        )
        self._task = self._bar.add_task("", total=None, left="", note="")

    def __enter__(self) -> RoundProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, done: int, total: int, note: str = "") -> None:
        if self._first is None:
            self._first = done
            self._bar.start()  # not earlier: modules may still be imported, and Ctrl-C then ends the process at once
        now, left = time.monotonic(), ""
        if done > self._first:
            left = _remaining((now - self._began) * (total - done) / (done - self._first))
        self._bar.update(self._task, completed=done, total=total, left=left, note=note)
        if not self._console.is_terminal and (done == total or now - self._printed > _LOG_SECONDS):
            self._printed = now
            self._console.print("  ".join(filter(None, (f"{self._unit} {done}/{total}", left, note))))


def _remaining(seconds: float) -> str:
    return f"about {seconds / 60:.0f} min left" if seconds > 90 else f"about {seconds:.0f} s left"
