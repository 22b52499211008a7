"""What one open page is sent: the list, then for its curves and strips everything, then only what is new.

Nothing is remembered between two connections: a page that connects again, after a sleep or a restart of the server, is
sent everything once more.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from fedswe.live.hub import Hub

_ALIVE = 10.0  # seconds without news after which a page is told that the server is there
_NOTHING = (-1, -1, -1)


async def events(hub: Hub, ids: Sequence[str]) -> AsyncIterator[str]:
    """Server-sent events for a page that shows the curves of these runs and deployments."""
    version = 0
    curves: dict[str, tuple[int, int, int]] = {}
    strips: dict[str, tuple[int, int]] = {}
    yield "retry: 1000\n\n"
    with hub.following(ids):
        while True:
            version, text = hub.since(version)
            if text:
                yield _event("items", text)
            for id_ in ids:
                curve = hub.curves.get(id_)
                if curve is not None and curves.get(id_) != curve.position:
                    yield _json("curve", {"id": id_, **curve.since(curves.get(id_, _NOTHING))})
                    curves[id_] = curve.position
                strip = hub.strips.get(id_)
                if strip is not None and strips.get(id_) != strip.position:
                    yield _json("strip", {"id": id_, **strip.since(strips.get(id_, _NOTHING[:2]))})
                    strips[id_] = strip.position
            if hub.closed:
                return
            if not await hub.changed(_ALIVE):
                yield _event("alive", "{}")


def _json(name: str, value: dict[str, Any]) -> str:
    return _event(name, json.dumps(value, allow_nan=False, separators=(",", ":")))


def _event(name: str, text: str) -> str:
    return f"event: {name}\ndata: {text}\n\n"
