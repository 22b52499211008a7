"""Progress of runs in a script or a notebook: the rounds run, in one line that is gone at the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Self

from rich.console import Console

_PATIENCE, _PAUSE = 1.0, 0.2  # seconds until it is shown, and between two of its texts


class Progress:
    """Call it with the rounds run and to run. It is shown on a terminal (stderr) and in a notebook, nowhere else."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _PATIENCE
        self._first: tuple[float, int] | None = None  # time and rounds of the first call
        self._show: Callable[[str], None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._show is not None:
            self._show("")

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        began, before = self._first = self._first or (now, done)
        if now > self._next:
            self._next = now + _PAUSE
            self._show = self._show or _display()
            left = timedelta(seconds=round((now - began) * (total - done) / max(done - before, 1)))
            self._show(f"rounds {done}/{total}  {left} left")


def _display() -> Callable[[str], None]:
    """Shows one text in the place of the one before."""
    console = Console(stderr=True)
    if console.is_jupyter:
        from IPython.display import display

        line = display({"text/plain": ""}, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        return lambda text: line.update({"text/plain": text}, raw=True)
    if not console.is_terminal:
        return lambda text: None
    return lambda text: print(f"\r\x1b[K{text}", end="", file=console.file, flush=True)
