"""FLASH's state traces: JSON {id: {guid, model, messages: "time\\tevent\\n..."}}.

A device is available while it is locked, charged and on Wi-Fi, and observed from its first message to its last. FLASH
drops an interval that is still open at the last message; here it ends there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from fedswe.availability import timestamps
from fedswe.availability.trace_formats.spans import Spans, Trace
from fedswe.errors import FedsweError, require, warn

_EVENTS = {  # event -> the part of the state that it sets, and its value
    "battery_charged_on": ("charged", True),
    "battery_charged_off": ("charged", False),
    "wifi": ("wifi", True),
    **dict.fromkeys(("2g", "3g", "4g", "5g", "unknown"), ("wifi", False)),
    "screen_lock": ("locked", True),
    "screen_unlock": ("locked", False),
}
_IGNORED = {"screen_on", "screen_off", "battery_low", "battery_okay", "phone_on", "phone_off"}


def recognised(head: bytes) -> bool:
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"


def read(path: Path) -> Trace:
    try:
        devices = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise FedsweError(f"{path} cannot be read as JSON ({str(error)[:80]})") from None
    require(isinstance(devices, dict), f"{path} holds no dictionary of devices, as FLASH's traces do")
    available, observed, wrong = Spans(str(path)), Spans(str(path)), []
    for device, entry in devices.items():
        messages = entry.get("messages") if isinstance(entry, dict) else None
        if not isinstance(messages, str):
            raise FedsweError(f"{path}: device {device[:40]!r} has no messages, as FLASH's traces have")
        try:
            start, end, first, last = _intervals(messages)
        except ValueError as error:
            wrong.append(f"{device[:40]!r}: {error}")
            continue
        available.add(device, start, end)
        observed.add(device, [first], [last])
    require(observed.start, f"{path}: no device has messages that can be read ({wrong[0] if wrong else 'it is empty'})")
    if wrong:
        warn(f"{path}: {len(wrong)} of {len(devices)} devices cannot be read and are left out, first {wrong[0]}")
    return Trace(available, observed, dated=True)


def _intervals(messages: str) -> tuple[list[float], list[float], float, float]:
    """Starts and ends of the intervals in which a device is available, its first and its last message."""
    rows = [line.split("\t") for line in messages.splitlines() if line.strip()]
    if not rows or any(len(row) != 2 for row in rows):
        raise ValueError("a message is not a time, a tab and an event")
    texts = np.array([row[0].strip().encode()[: timestamps.WIDTH] for row in rows], dtype=f"S{timestamps.WIDTH}")
    times = timestamps.column_seconds(texts)[0]
    if not np.isfinite(times).all():
        raise ValueError(f"the time {rows[int(np.isfinite(times).argmin())][0][:40]!r} cannot be read")
    state: dict[str, Any] = dict.fromkeys(("charged", "wifi", "locked"), False)
    start: list[float] = []
    end: list[float] = []
    was = False
    for i in np.argsort(times, kind="stable"):
        event = rows[i][1].strip().lower()
        if event in _EVENTS:
            part, value = _EVENTS[event]
            state[part] = value
        elif event not in _IGNORED and not event.endswith("%"):
            raise ValueError(f"the event {event[:40]!r} is not known")
        now = all(state.values())
        if now != was:
            (start if now else end).append(float(times[i]))
            was = now
    first, last = float(times.min()), float(times.max())
    if last <= first:
        raise ValueError("all messages have the same time")
    return start, end + [last] * was, first, last
