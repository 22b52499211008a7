"""How long to wait before the next request when there was nothing to do."""

from __future__ import annotations


def idle_pause(idle: float, shortest: float, longest: float) -> float:
    """A tenth of the time without work: it delays a round by at most a tenth, and idle nodes make few requests."""
    return min(max(idle / 10, shortest), longest)
