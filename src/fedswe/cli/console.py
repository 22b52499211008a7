"""What commands print: one console, and the progress of rounds as a bar on a terminal, as plain lines elsewhere."""

from __future__ import annotations

import json
import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

console = Console(highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """One JSON document."""
    print(json.dumps(value, allow_nan=False))


class RoundProgress:
    """Rounds run, rounds to run, the time left, and a note such as the latest score."""

    def __init__(self) -> None:
        self._began = self._printed = time.monotonic()
        self._first: int | None = None  # rounds that were done before this process began
        self._bar = Progress(
            TextColumn("rounds {task.completed}/{task.total}"),
            BarColumn(),
            TextColumn("{task.fields[left]}  {task.fields[note]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=None, left="", note="")

    def __enter__(self) -> RoundProgress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, done: int, total: int, note: str = "") -> None:
        self._first = done if self._first is None else self._first
        now, left = time.monotonic(), ""
        if done > self._first:
            left = _remaining((now - self._began) * (total - done) / (done - self._first))
        self._bar.update(self._task, completed=done, total=total, left=left, note=note)
        if not console.is_terminal and (done == total or now - self._printed > 10):
            self._printed = now
            console.print(f"rounds {done}/{total}  {left}  {note}".rstrip(), markup=False)


def _remaining(seconds: float) -> str:
    return f"about {seconds / 60:.0f} min left" if seconds > 90 else f"about {seconds:.0f} s left"
