"""Failures that are the user's to mend, as one line: in their own classes, too little memory."""

from __future__ import annotations

import os

from fedswe.errors import FedsweError, first_line, located
from fedswe.plugins import own_names

TRACEBACK = "FEDSWE_TRACEBACK"  # environment variable: show the whole traceback of a failure too
_ALLOCATION = ("can't allocate memory", "out of memory", "not enough memory")  # torch, on a CPU and on a GPU


def explained(error: Exception) -> FedsweError | None:
    """The line for the user; None for a failure of this package."""
    if isinstance(error, FedsweError):
        return error
    if isinstance(error, MemoryError) or any(text in str(error) for text in _ALLOCATION):
        return FedsweError(
            f"not enough memory ({first_line(error)}): lower task.clients, local.batch_size or local.steps, "
            "choose a smaller model, or give fewer --jobs"
        )
    more = "" if os.environ.get(TRACEBACK) else f"; {TRACEBACK}=1 shows the whole traceback"
    if place := located(error):
        return FedsweError(f"{place}{more}")
    if names := own_names():
        return FedsweError(f"{first_line(error)}: check what the methods of {' and '.join(names)} return{more}")
    return None
