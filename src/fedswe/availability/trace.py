"""Traces of others: when devices were available and observed, in the files that FedScale and FLASH publish.

FedScale has {id: {active: [s], inactive: [s], finish_time, ...}}: a device is available from active[k] to inactive[k],
and observed from 0 to finish_time. FLASH has {id: {guid, model, messages: "time\\tevent\\n..."}}: a device is available
while it is locked, charged and on Wi-Fi, and observed from its first message to its last. FLASH drops an interval that
is still open at the last message; here it ends there.
"""

from __future__ import annotations

import codecs
import io
import json
import pickle
import pickletools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd

from fedswe.availability.table import existing, reason
from fedswe.errors import FedsweError, require, warn

LONGEST = 50_000_000  # intervals of a trace; a small pickle can name the same list millions of times

Trace = tuple[pd.DataFrame, pd.DataFrame]  # columns client, start, end: when devices were available, and observed
Spans = dict[Any, tuple[list[Any], list[Any]]]  # device -> starts, ends


def trace_reader(path: str, key: str) -> Callable[[str], Trace] | None:
    """The reader for a trace of FedScale or FLASH, recognised by its first bytes; None for a table."""
    with existing(path, key).open("rb") as stream:
        head = stream.read(4096)
    if head[:1] == b"\x80" or head.startswith((b"(dp", b"}")):  # pickles of protocol 2 and later, 0, 1
        return _fedscale
    return _flash if head.removeprefix(codecs.BOM_UTF8).lstrip()[:1] == b"{" else None


def _frame(spans: Spans, path: str) -> pd.DataFrame:
    """A row per interval, device by device."""
    intervals = sum(len(starts) for starts, _ in spans.values())
    require(intervals > 0, f"{path}: no device is ever available")
    require(intervals <= LONGEST, f"{path} has more than {LONGEST:,} intervals")
    for device in spans:
        good = not isinstance(device, str) or (device and device.isprintable())
        require(good, f"{path}: ids need printable characters, not {str(device)[:40]!r}")
    lists = pd.DataFrame.from_dict(spans, orient="index", columns=["start", "end"]).rename_axis("device {!r}")
    rows = lists.explode(["start", "end"]).dropna().infer_objects()
    return rows.assign(client=rows.index)


def _fedscale(path: str) -> Trace:
    try:
        devices = _plain_pickle(Path(path).read_bytes())
    except ValueError as error:
        raise FedsweError(f"{path} cannot be read as FedScale's trace ({reason(error)[:120]})") from None
    require(isinstance(devices, dict) and devices, f"{path} holds no dictionary of devices, as FedScale's trace does")
    kinds = {type(device) for device in devices}
    require(kinds == {int} or kinds == {str}, f"{path}: ids must all be whole numbers, or all be texts")
    available, observed = {}, {}
    for device, entry in devices.items():
        where, fields = f"{path}: device {str(device)[:40]!r}", ("active", "inactive", "finish_time")
        known = isinstance(entry, dict) and all(name in entry for name in fields)
        require(known, f"{where} needs {', '.join(fields)}")
        active, inactive, finish = (entry[name] for name in fields)
        require(_seconds(active) and _seconds(inactive), f"{where}: active and inactive must be lists of seconds")
        require(_seconds([finish]) and finish > 0, f"{where}: finish_time must be a positive number of seconds")
        inactive = [*inactive, finish] if len(inactive) == len(active) - 1 else inactive
        require(len(inactive) == len(active), f"{where}: {len(active)} times in active, {len(inactive)} in inactive")
        available[device], observed[device] = (active, inactive), ([0.0], [finish])
    return _frame(available, path), _frame(observed, path)


def _seconds(values: Any) -> bool:
    return type(values) is list and all(type(value) in (int, float) and abs(value) < 1e300 for value in values)


_MEMO = {"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE", "GET", "BINGET", "LONG_BINGET"}
_PLAIN = re.compile(
    "(BIN)?INT[12]?|LONG[14]?|(BIN)?FLOAT|(SHORT_)?(BIN)?(STRING|UNICODE)8?|(EMPTY_)?(LIST|DICT)|APPENDS?|SETITEMS?|NONE|"
    "NEW(TRUE|FALSE)|MARK|STOP|PROTO|FRAME"
)


class _Unpickler(pickle.Unpickler):
    """Nothing can be named, so nothing can be called; operations that could name something are refused before."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise ValueError(f"it names {module}.{name}")


def _plain_pickle(content: bytes) -> Any:
    """The value of a pickle of numbers, texts, lists and dictionaries; ValueError if it is damaged or holds more.

    An unpickler can also be made to crash by nested keys, or to allocate without end by a place in its memo.
    """
    for operation, value, _ in pickletools.genops(content):
        if operation.name not in _MEMO and not _PLAIN.fullmatch(operation.name):
            raise ValueError(f"it holds more than numbers, texts, lists and dictionaries ({operation.name})")
        if isinstance(value, int) and abs(value) >= (len(content) if operation.name in _MEMO else 2**63):
            raise ValueError("it holds a number above 2^63, or is damaged")
    try:
        return _Unpickler(io.BytesIO(content)).load()
    except Exception as error:  # a damaged pickle raises nearly anything
        raise ValueError(f"it is damaged ({type(error).__name__})") from None


_EVENTS: dict[str, dict[str, float]] = {  # each sets a part of the state; a device is available when all are 1
    "charged": {"battery_charged_on": 1, "battery_charged_off": 0},
    "wifi": {"wifi": 1, "2g": 0, "3g": 0, "4g": 0, "5g": 0, "unknown": 0},
    "locked": {"screen_lock": 1, "screen_unlock": 0},
}
_KNOWN = {"screen_on", "screen_off", "battery_low", "battery_okay", "phone_on", "phone_off"}.union(*_EVENTS.values())


def _flash(path: str) -> Trace:
    try:
        devices = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise FedsweError(f"{path} cannot be read as JSON ({str(error)[:80]})") from None
    available, observed, wrong = {}, {}, []
    for device, entry in devices.items():
        messages = entry.get("messages") if isinstance(entry, dict) else None
        require(isinstance(messages, str), f"{path}: device {device[:40]!r} has no messages, as FLASH's traces have")
        try:
            available[device], observed[device] = _spans(str(messages))
        except ValueError as error:
            wrong.append(f"{device[:40]!r}: {error}")
    require(observed, f"{path}: no device has messages that can be read ({wrong[0] if wrong else 'it is empty'})")
    if wrong:
        warn(f"{path}: {len(wrong)} of {len(devices)} devices cannot be read and are left out, first {wrong[0]}")
    return _frame(available, path), _frame(observed, path)


def _spans(messages: str) -> tuple[tuple[list[Any], list[Any]], tuple[list[Any], list[Any]]]:
    """Starts and ends of the intervals in which a device is available, and its first and its last message."""
    rows = [line.split("\t") for line in messages.splitlines() if line.strip()]
    if not rows or any(len(row) != 2 for row in rows):
        raise ValueError("a message is not a time, a tab and an event")
    moments = pd.to_datetime([row[0].strip() for row in rows], utc=True, format="ISO8601", errors="coerce")
    if moments.hasnans:
        raise ValueError(f"the time {rows[int(moments.isna().argmax())][0][:40]!r} cannot be read")
    names = [row[1].strip().lower() for row in rows]
    events = pd.Series(names, moments.as_unit("us")).sort_index(kind="stable")
    unknown = events[~events.isin(_KNOWN) & ~events.str.endswith("%")]
    if len(unknown):
        raise ValueError(f"the event {unknown.iloc[0][:40]!r} is not known")
    there = pd.DataFrame({part: events.map(value) for part, value in _EVENTS.items()}).ffill().eq(1).all(axis=1)
    was = there.shift(fill_value=False)
    first, last = events.index[[0, -1]]
    if last <= first:
        raise ValueError("all messages have the same time")
    end = events.index[~there & was].tolist() + [last] * bool(there.iloc[-1])
    return (events.index[there & ~was].tolist(), end), ([first], [last])
