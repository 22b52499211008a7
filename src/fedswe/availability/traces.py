"""Traces in the formats of others: FedScale's pickle and FLASH's JSON.

FedScale has {id: {active: [s], inactive: [s], finish_time, ...}}: a device is available from active[k] to inactive[k],
and observed from 0 to finish_time. FLASH has {id: {guid, model, messages: "time\\tevent\\n..."}}: a device is available
while it is locked, charged and on Wi-Fi, and observed from its first message to its last. FLASH drops an interval that
is still open at the last message; here it ends there.
"""

from __future__ import annotations

import io
import json
import pickle
import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from fedswe.errors import FedsweError, require, warn

LONGEST = 50_000_000  # intervals of a trace; a small pickle can name the same list millions of times

Spans = dict[Any, tuple[list[float], list[float]]]  # device -> starts, ends


@dataclass(frozen=True)
class Trace:
    """The intervals of a file, and those in which each device was observed."""

    available: Spans
    observed: Spans
    dated: bool  # whether the times are seconds since 1970


def frame(spans: Spans, path: str) -> pd.DataFrame:
    """Columns client, start and end, device by device."""
    count = [len(start) for start, _ in spans.values()]
    require(sum(count) <= LONGEST, f"{path} has more than {LONGEST:,} intervals")
    for device in spans:
        good = not isinstance(device, str) or (device and device.isprintable())
        require(good, f"{path}: ids need printable characters, not {str(device)[:40]!r}")
    times = [np.fromiter(chain.from_iterable(part), np.float64) for part in zip(*spans.values(), strict=True)]
    client = np.repeat(pd.Index(list(spans)).to_numpy(), count)
    return pd.DataFrame({"client": client, "start": times[0], "end": times[1]})


def reader_of(path: Path) -> Callable[[Path], Trace] | None:
    """The reader for a file, by its first bytes; None for a table with client, start, end."""
    try:
        with path.open("rb") as stream:
            head = stream.read(4096)
    except OSError as error:
        raise FedsweError(f"cannot read {path}: {error.strerror}") from None
    if head[:1] == b"\x80" or head.startswith((b"(dp", b"}")):  # pickles of protocol 2 and later, 0, 1
        return _fedscale
    return _flash if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{" else None


# FedScale --------------------------------------------------------------------------------------------------
_FIELDS = ("active", "inactive", "finish_time")


def _fedscale(path: Path) -> Trace:
    try:
        devices = _plain_pickle(path.read_bytes())
    except ValueError as error:
        reason = str(error).splitlines()[0][:120]
        raise FedsweError(f"{path} cannot be read as FedScale's trace ({reason})") from None
    require(isinstance(devices, dict) and devices, f"{path} holds no dictionary of devices, as FedScale's trace does")
    kinds = {type(device) for device in devices}
    require(kinds == {int} or kinds == {str}, f"{path}: ids must all be whole numbers, or all be texts")
    available, observed = {}, {}
    for device, entry in devices.items():
        where = f"{path}: device {str(device)[:40]!r}"
        known = isinstance(entry, dict) and all(name in entry for name in _FIELDS)
        require(known, f"{where} needs {', '.join(_FIELDS)}")
        active, inactive, finish = (entry[name] for name in _FIELDS)
        require(_seconds(active) and _seconds(inactive), f"{where}: active and inactive must be lists of seconds")
        require(
            len(inactive) in (len(active), len(active) - 1),
            f"{where}: {len(active)} times in active, but {len(inactive)} in inactive",
        )
        require(_seconds([finish]) and finish > 0, f"{where}: finish_time must be a positive number of seconds")
        available[device] = active, inactive if len(inactive) == len(active) else [*inactive, finish]
        observed[device] = [0.0], [finish]
    return Trace(available, observed, dated=False)


def _seconds(values: Any) -> bool:
    return type(values) is list and all(type(value) in (int, float) for value in values)


_NUMBERS = {"INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"}
_TEXTS = {"STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"}
_MEMO = {"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE", "GET", "BINGET", "LONG_BINGET"}
_BUILDING = {"EMPTY_LIST", "LIST", "APPEND", "APPENDS", "EMPTY_DICT", "DICT", "SETITEM", "SETITEMS"}
_PLAIN = _NUMBERS | _TEXTS | _MEMO | _BUILDING | {"NONE", "NEWTRUE", "NEWFALSE", "MARK", "STOP", "PROTO", "FRAME"}


class _Unpickler(pickle.Unpickler):
    """Nothing can be named, so nothing can be called; operations that could name something are refused before."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise ValueError(f"it names {module}.{name}")


def _plain_pickle(content: bytes) -> Any:
    """The value of a pickle of numbers, texts, lists and dictionaries; ValueError if it is damaged or holds more.

    An unpickler can also be made to crash by nested keys, or to allocate without end by a place in its memo.
    """
    for operation, value, _ in pickletools.genops(content):
        if operation.name not in _PLAIN:
            raise ValueError(f"it holds more than numbers, texts, lists and dictionaries ({operation.name})")
        if isinstance(value, int) and abs(value) >= (len(content) if operation.name in _MEMO else 2**63):
            raise ValueError("it holds a number above 2^63, or is damaged")
    try:
        return _Unpickler(io.BytesIO(content)).load()
    except Exception as error:  # a damaged pickle raises nearly anything
        raise ValueError(f"it is damaged ({type(error).__name__})") from None


# FLASH -----------------------------------------------------------------------------------------------------
_EVENTS = {  # event -> the part of the state that it sets, and its value
    "battery_charged_on": ("charged", True),
    "battery_charged_off": ("charged", False),
    "wifi": ("wifi", True),
    **dict.fromkeys(("2g", "3g", "4g", "5g", "unknown"), ("wifi", False)),
    "screen_lock": ("locked", True),
    "screen_unlock": ("locked", False),
}
_IGNORED = {"screen_on", "screen_off", "battery_low", "battery_okay", "phone_on", "phone_off"}


def _flash(path: Path) -> Trace:
    try:
        devices = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise FedsweError(f"{path} cannot be read as JSON ({str(error)[:80]})") from None
    available, observed, wrong = {}, {}, []
    for device, entry in devices.items():
        messages = entry.get("messages") if isinstance(entry, dict) else None
        if not isinstance(messages, str):
            raise FedsweError(f"{path}: device {device[:40]!r} has no messages, as FLASH's traces have")
        try:
            start, end, first, last = _intervals(messages)
        except ValueError as error:
            wrong.append(f"{device[:40]!r}: {error}")
            continue
        available[device] = start, end
        observed[device] = [first], [last]
    require(observed, f"{path}: no device has messages that can be read ({wrong[0] if wrong else 'it is empty'})")
    if wrong:
        warn(f"{path}: {len(wrong)} of {len(devices)} devices cannot be read and are left out, first {wrong[0]}")
    return Trace(available, observed, dated=True)


def _intervals(messages: str) -> tuple[list[float], list[float], float, float]:
    """Starts and ends of the intervals in which a device is available, its first and its last message."""
    rows = [line.split("\t") for line in messages.splitlines() if line.strip()]
    if not rows or any(len(row) != 2 for row in rows):
        raise ValueError("a message is not a time, a tab and an event")
    moments = pd.to_datetime([row[0].strip() for row in rows], utc=True, format="ISO8601", errors="coerce")
    if moments.hasnans:
        raise ValueError(f"the time {rows[int(moments.isna().argmax())][0][:40]!r} cannot be read")
    times = moments.as_unit("us").asi8 / 1e6
    state = dict.fromkeys(("charged", "wifi", "locked"), False)
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
