"""What one open page is sent: the list, then for its curves and strips everything, then only what is new.

Nothing is remembered between two connections: a page that connects again, after a sleep or a restart of the server, is
sent everything once more.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from fedswe.live.hub import NOTHING, Hub

_ALIVE = 10.0  # seconds without news after which a page is told that the server is there


async def events(hub: Hub, ids: Sequence[str]) -> AsyncIterator[str]:
    """Server-sent events for a page that shows the curves of these runs."""
    seen, spoken = _Seen(), 0.0
    yield "retry: 1000\n\n"
    with hub.following(ids):
        while True:
            for event in seen.news(hub, ids):
                spoken = time.monotonic()
                yield event
            if hub.closed:
                return
            if time.monotonic() > spoken + _ALIVE:
                spoken = time.monotonic()
                yield _event("alive", "{}")
            await hub.changed()


class _Seen:
    """What a page has been sent."""

    def __init__(self) -> None:
        self._version = NOTHING
        self._curves: dict[str, tuple[int, int, int]] = {}
        self._strips: dict[str, tuple[int, int]] = {}
        self._not_followed: list[str] = []

    def news(self, hub: Hub, ids: Sequence[str]) -> Iterator[str]:
        self._version, text = hub.since(self._version)
        if text:
            yield _event("items", text)
        if (left := [id_ for id_ in ids if id_ in hub.not_followed]) != self._not_followed:
            self._not_followed = left
            yield _json("not_followed", {"ids": left})
        for id_ in ids:
            curve, strip = hub.curves.get(id_), hub.strips.get(id_)
            if curve is not None and self._curves.get(id_) != curve.position:
                message = curve.since(self._curves.get(id_, (NOTHING, 0, 0)))
                self._curves[id_] = curve.position
                yield _json("curve", {"id": id_, **message})
            if strip is not None and self._strips.get(id_) != strip.position:
                message = strip.since(self._strips.get(id_, (NOTHING, 0)))
                self._strips[id_] = strip.position
                yield _json("strip", {"id": id_, **message})


def _json(name: str, value: dict[str, Any]) -> str:
    return _event(name, json.dumps(value, allow_nan=False, separators=(",", ":")))


def _event(name: str, text: str) -> str:
    return f"event: {name}\ndata: {text}\n\n"
