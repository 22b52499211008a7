"""Signs that a model diverged."""

from __future__ import annotations

import math
from collections.abc import Iterable

from fedswe.results.history import History

GROWTH = 100.0  # a loss that is so many times the initial one


def divergence(history: History, prefix: str = "", models: Iterable[str] = ()) -> str:
    """The first sign in the last row that the run diverged, in words; empty if there is none.

    A sign is a number that is not finite, or a loss that is finite but a hundred times the one before the first round.
    Only columns that begin with `prefix` count. Of `models`, those whose names begin with it too have columns of their
    own, which do not: ema_client_mean_test_loss is not a score of ema.
    """
    others = tuple(f"{model}_" for model in models if f"{model}_".startswith(prefix) and f"{model}_" != prefix)
    for column, last in history.last.items():
        first = history.rows[0].get(column, math.nan)
        if not column.startswith(prefix) or column.startswith(others):
            continue
        if not math.isfinite(last):
            return f"{column} is {last:g}"
        if column.endswith("loss") and last > GROWTH * first > 0:
            return f"{column} rose from {first:.3g} to {last:.3g}"
    return ""
