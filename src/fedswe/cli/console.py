"""What commands print: text, tables, JSON, and progress as a bar on a terminal or as plain lines elsewhere.

Colours are rich's decision: none without a terminal or with NO_COLOR.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from datetime import timedelta
from textwrap import wrap
from typing import Any

from pydantic_core import to_json
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text


class _Console(Console):
    """On a terminal, text is wrapped at words, with a hanging indent; elsewhere each line stays whole.

    So does a line that is a command, which is there to be copied.
    """

    def __init__(self, width: int | None = None) -> None:
        super().__init__(highlight=False, soft_wrap=True, markup=False, emoji=False, width=width)

    def print(self, *objects: Any, **options: Any) -> None:
        if self.is_terminal:
            objects = tuple(self._wrapped(text) if isinstance(text, str) else text for text in objects)
        super().print(*objects, **options)

    def _wrapped(self, text: str) -> str:
        def wrapped(line: re.Match[str]) -> str:
            width = max(self.width - len(line[1]), 20)
            parts = wrap(line[2], width, break_long_words=False, break_on_hyphens=False)
            return line[1] + ("\n" + " " * len(line[1])).join(parts)

        return _LINE.sub(wrapped, _SAME_PARAGRAPH.sub(r"\1 ", text))


console = _Console()

_SAME_PARAGRAPH = re.compile(r"^(\S.*)\n(?=[^\s*-])", re.MULTILINE)
# No command, and first what further lines are indented by: "results   ".
_LINE = re.compile(r"^(?! *(?:\$ |-> |try +)?(?:fedswe|make|pip) )( *(?:\S+ {2,})?)(.+)$", re.MULTILINE)
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
    table = Table(show_lines=lines)
    for i, column in enumerate(columns):
        right = numbers and i > 0
        table.add_column(column, justify="right" if right else "left", no_wrap=i == 0, overflow="fold")
    for row in rows:
        table.add_row(*row)
    wide = _WIDEST if numbers else max(console.width, _LOG_WIDTH)
    if title:
        console.print(title, style="italic")
    _Console(None if console.is_terminal else wide).print(table)


class RoundProgress:
    """How far it is, the time left, and a note such as the latest score; nothing if it is `quiet`."""

    def __init__(self, quiet: bool = False) -> None:
        self._quiet, self._printed = quiet, time.monotonic()
        before, after = (TextColumn(text, markup=False) for text in ("{task.description}", "{task.fields[note]}"))
        columns = (before, BarColumn(), TimeRemainingColumn(), after)
        hours = 3600 * 1000  # the time left is estimated from up to a thousand rounds, however long they take
        hidden = quiet or not console.is_terminal
        self._bar = Progress(*columns, console=console, disable=hidden, speed_estimate_period=hours)
        self._task = self._bar.add_task("", total=None, note="")

    def __enter__(self) -> RoundProgress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, done: int, total: int, note: str = "", words: str = "") -> None:
        """`words` stand in place of the rounds."""
        words = words or f"rounds {done}/{total}"
        self._bar.start()  # not earlier: modules may still be imported, and Ctrl-C then ends the process at once
        self._bar.update(self._task, completed=done, total=total, description=words, note=note)
        now, left = time.monotonic(), self._bar.tasks[0].time_remaining
        if not self._quiet and not console.is_terminal and (done == total or now - self._printed > _LOG_SECONDS):
            self._printed = now
            remaining = "" if left is None else f"{timedelta(seconds=int(left))} left"
            console.print("  ".join(filter(None, (words, remaining, note))))
