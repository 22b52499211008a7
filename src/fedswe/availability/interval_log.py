"""Logs of the times at which devices were online, read from files and arrays: one row per device and interval.

A log may also say when each device was observed. What lies outside is unknown: a schedule takes it as unavailable,
statistics leave it out.
"""

from __future__ import annotations

import csv
import io
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fedswe.availability import columns, timestamps
from fedswe.availability.columns import Array
from fedswe.availability.log import Integers, Log, observed_in
from fedswe.availability.schedule import Bools, Floats
from fedswe.availability.text_file import TextFile, existing, open_text, reason
from fedswe.availability.trace_formats import Trace, reader_of
from fedswe.errors import FedsweError, require, warn

KEY = "availability.file"
OBSERVED_KEY = "availability.observed_file"
NAMES = {  # what the header may call each column, in small letters
    "client": ("client", "client_id", "device", "device_id", "id"),
    "start": ("start", "start_s", "start_time", "begin", "begin_s"),
    "end": ("end", "end_s", "end_time", "stop", "stop_s"),
}
_LONGEST_ID = 64  # characters
_MILLISECONDS = 1e11  # seconds since 1970 reach it in the year 5138, milliseconds did in 1973


def read(path: str, observed: str = "", key: str = KEY) -> Log:
    """The log in a file: text with separated columns, Parquet, or a format of others (trace_formats).

    `observed` is a second log, with the intervals in which each device was observed.
    """
    status = os.stat(existing(path, key))
    log = _read(path, status.st_mtime_ns, status.st_size)
    if not observed:
        return log
    require(log.observed is None, f"{OBSERVED_KEY}: {path} says itself when its devices were observed: leave it out")
    return observed_in(log, read(observed, key=OBSERVED_KEY))


@lru_cache(maxsize=2)  # a comparison asks for the same log once per run
def _read(path: str, changed: int, size: int) -> Log:
    """`changed` and `size` tell the contents of one path apart."""
    if path.lower().endswith((".parquet", ".pq")):
        return _from_columns(columns.from_parquet(path, KEY, index=True), path)
    reader = reader_of(Path(path))
    if reader is not None:
        return _from_trace(reader(Path(path)), path)
    return _from_text(open_text(path, KEY))


def is_log(path: str) -> bool:
    """Whether a file is a log of intervals: a format of others, or a table with three columns or their names."""
    if path.lower().endswith((".npy", ".npz")):
        return False
    if path.lower().endswith((".parquet", ".pq")):
        return _has_names(list(columns.from_parquet(path, KEY, index=True)))
    if reader_of(Path(path)) is not None:
        return True
    try:
        first = next(open_text(path, KEY).lines(), (0, []))[1]
    except ValueError as error:
        raise FedsweError(f"{path} cannot be read ({reason(error)})") from None
    # Without names, rows of client, start, end hold something else than 0 and 1.
    return _has_names(first) or (len(first) == 3 and not set(first) <= {"0", "1", "true", "false"})


def _has_names(found: Sequence[str]) -> bool:
    names = {name.strip().lower() for name in found}
    return bool(names & set(NAMES["start"])) and bool(names & set(NAMES["end"]))


def csv_text(log: Log) -> str:
    """The log as a table, seconds with as many digits as they need."""
    names = log.names
    if log.ids is None:
        unreadable = next((name for name in names if name.startswith("#")), None)
        require(unreadable is None, f"{log.name}: the id {unreadable!r} would begin a comment in a table: rename it")
        if all(name.isdigit() for name in names):
            require(len({int(name) for name in names}) == len(names), f"{log.name}: ids such as 1 and 01: rename them")
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["client", "start_s", "end_s"])
    for k, name in enumerate(names):
        span = slice(log.offset[k], log.offset[k + 1])
        times = zip(log.start[span].tolist(), log.end[span].tolist(), strict=True)
        writer.writerows((name, f"{start:.17g}", f"{end:.17g}") for start, end in times)
    return stream.getvalue()


def from_memory(log: Any, name: str) -> Log:
    """The log in a data frame, a dictionary of columns, a structured array, or rows of client, start, end."""
    try:
        found = columns.from_memory(log)
        if found is None:
            turned = log.T if isinstance(log, np.ndarray) else zip(*log, strict=True)
            parts = [np.asarray(part) for part in turned]
    except (TypeError, ValueError, AttributeError) as error:
        raise FedsweError(f"{name} is not a table with rows of client, start, end ({reason(error)})") from None
    if found is None:
        require(len(parts) == 3, f"{name} has {len(parts)} columns: give client, start and end")
        found = dict(zip(NAMES, parts, strict=True))
    return _from_columns(found, name)


def _from_trace(trace: Trace, path: str) -> Log:
    parts = [
        # Observations of one device may touch: those of an available and an unavailable time do.
        _from_columns(spans.columns(), path, may_touch=seen, place=spans.place)
        for spans, seen in ((trace.available, False), (trace.observed, True))
        if spans.start
    ]
    if trace.dated:
        parts = [replace(part, dated=True) for part in parts]
    if not trace.available.start:
        raise FedsweError(f"{path}: no device is ever available")
    return parts[0] if len(parts) == 1 else observed_in(*parts)


# text ----------------------------------------------------------------------------------------------------
def _from_text(text: TextFile) -> Log:
    """numpy reads the columns; only if it cannot, the lines are searched for the mistake."""
    lines = text.lines()
    try:
        number, first = next(lines, (0, []))
        header = bool({cell.lower() for cell in first} & {*NAMES["start"], *NAMES["client"]})
        skipped, row = (number, next(lines, (0, []))[1]) if header else (number - 1, first)
    except ValueError as error:
        raise FedsweError(f"{KEY}: {text.path} cannot be read ({reason(error)})") from None
    require(row, f"{KEY}: {text.path} has no rows: give client, start, end")
    require(
        header or len(row) == 3,
        f"{KEY}: {text.path} has {len(row)} columns and no header: name the columns client, start, end",
    )
    places = [first.index(name) for name in _chosen(first, str(text.path))] if header else [0, 1, 2]
    width = max(len(row), *(place + 1 for place in places))
    dated = len(row) == width and not _is_number(row[places[1]])
    table = _load(text, skipped, places, width, dated)
    if table is None:
        raise FedsweError(f"{KEY}: {text.path}: {_mistake(text, skipped, places, width, dated)}")

    def place(i: int, name: str) -> str:
        hint = "" if header or i or not dated else "; name the columns client, start, end if this line is a header"
        return f"line {text.line_of(i, skipped)}, column {places[list(NAMES).index(name)] + 1}{hint}"

    return _log(str(text.path), table["client"], table["start"], table["end"], place)


def _load(text: TextFile, skipped: int, places: Sequence[int], width: int, dated: bool) -> Array | None:
    """The three columns, or None if numpy cannot read them. Ids are whole numbers, or else texts."""
    time = f"S{timestamps.WIDTH}" if dated else "f8"

    def load(ids: str) -> Array:
        kinds = [(f"other {i}", "U1") for i in range(width)]  # read too, so that lines have the same number of columns
        for place, name, kind in zip(places, NAMES, (ids, time, time), strict=True):
            kinds[place] = (name, kind)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # numpy would read the id 1.5 as 1, with a warning
            return np.loadtxt(
                text.path,
                delimiter=text.separator,
                skiprows=skipped,
                dtype=kinds,
                encoding=text.encoding,
                comments=None,
                quotechar='"',
                ndmin=1,
            )

    for ids in ("i8", "S16", "U16"):  # S holds the characters of Western Europe in a quarter of the memory of U
        try:
            table = load(ids)
            if ids != "i8" and _full(table["client"]):
                table = load(f"{ids[0]}{_LONGEST_ID}")
                require(not _full(table["client"]), f"{KEY}: {text.path}: ids need fewer than {_LONGEST_ID} characters")
        except FedsweError:
            raise
        except (ValueError, Warning):
            continue
        return table
    return None


def _full(texts: Array) -> bool:
    """Whether a text may have been cut off."""
    return bool((np.strings.str_len(texts) >= texts.dtype.itemsize // (4 if texts.dtype.kind == "U" else 1)).any())


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _mistake(text: TextFile, skipped: int, places: Sequence[int], width: int, dated: bool) -> str:
    """The first line and column that cannot be read."""
    try:
        for number, cells in text.lines():
            if number <= skipped:
                continue
            if len(cells) != width:
                return f"line {number} has {len(cells)} columns, not {width} as the first row or the header"
            for name, place in zip(NAMES, places, strict=True):
                if name != "client" and not dated and not _is_number(cells[place]):
                    return f"line {number}, column {place + 1}: the {name} {cells[place][:40]!r} is not a number"
    except ValueError as error:
        return reason(error)
    return "it is not a table with the columns client, start, end; comments may stand before the first row only"


# columns -------------------------------------------------------------------------------------------------
def _chosen(names: Sequence[str], source: str) -> list[str]:
    """The names of the three columns among those of a table."""
    chosen = []
    for column, known in NAMES.items():
        found = [name for name in names if name.strip().lower() in known]
        require(found, f"{source} has no column {column}: call it {' or '.join(known)}; found {', '.join(names)[:80]}")
        require(len(found) == 1, f"{source} has several columns for {column}: {', '.join(found)}")
        chosen.append(found[0])
    return chosen


def _index(i: int, column: str) -> str:
    return f"{column}[{i}]"


def _from_columns(
    table: dict[str, Array], name: str, may_touch: bool = False, place: Callable[[int, str], str] = _index
) -> Log:
    client, start, end = (table[column] for column in _chosen(list(table), name))
    require(client.ndim == 1 and client.shape == start.shape == end.shape, f"{name}: columns must have equal lengths")
    require(len(client), f"{name} has no rows: give client, start, end")

    if client.dtype.kind == "f":
        whole = np.isfinite(client) & (client == np.round(client)) & (np.abs(client) < 2**53)
        _require_all(whole, lambda i: f"{name}: {place(i, 'client')}", "is not a whole number or a text")
        client = client.astype(np.int64)
    elif client.dtype.kind not in "iuSU":
        known = np.array([value is not None and value == value for value in client])
        _require_all(known, lambda i: f"{name}: {place(i, 'client')}", "is missing")
        try:
            client = client.astype(str)
        except (ValueError, UnicodeError):
            raise FedsweError(f"{name}: the clients must be whole numbers or texts") from None
    return _log(name, client, start, end, place, may_touch)


def _seconds(column: Array, where: Callable[[int], str]) -> tuple[Floats, Bools | None]:
    """A column of times in seconds; of timestamps also which have a zone."""
    if column.dtype.kind == "O" and all(isinstance(value, datetime) for value in column):
        column = np.array([value.isoformat() for value in column])
    if column.dtype.kind in "OU":
        try:
            column = column.astype(np.float64)
        except (ValueError, TypeError, OverflowError):
            column = np.array([str(value).encode()[: timestamps.WIDTH] for value in column])
    if column.dtype.kind == "M":  # of numpy, pandas or Parquet, where it is UTC
        seconds = column.astype("datetime64[us]").astype(np.int64) / 1e6
        _require_all(~np.isnat(column), where, "is missing")
        return seconds, np.ones(len(column), dtype=bool)
    if column.dtype.kind == "S":
        seconds, zoned = timestamps.column_seconds(column)
        _require_all(np.isfinite(seconds), where, "is not a timestamp such as 2026-01-31T18:00:00Z")
        return seconds, zoned
    seconds = np.full(len(column), np.nan)
    if column.dtype.kind in "iuf":
        seconds[:] = column
    _require_all(np.isfinite(seconds), where, "is not a number of seconds")
    return seconds, None


def _require_all(good: Bools, where: Callable[[int], str], complaint: str) -> None:
    if not good.all():
        raise FedsweError(f"{where(int(good.argmin()))} {complaint}")


# intervals in order --------------------------------------------------------------------------------------
def _log(
    name: str, client: Array, start: Array, end: Array, place: Callable[[int, str], str], may_touch: bool = False
) -> Log:
    """The log of three columns in any order."""

    def at_start(i: int) -> str:
        return f"{name}: the start ({place(i, 'start')})"

    def at_end(i: int) -> str:
        return f"{name}: the end ({place(i, 'end')})"

    if client.dtype.kind in "SU":
        _require_all(np.strings.str_len(client) > 0, lambda i: f"{name}: the client ({place(i, 'client')})", "is empty")
    first, zoned = _seconds(start, at_start)
    after, zoned_end = _seconds(end, at_end)
    dated = zoned is not None
    require(dated == (zoned_end is not None), f"{name}: start and end must both be seconds, or both be timestamps")
    if zoned is not None and zoned_end is not None and not (zoned.all() and zoned_end.all()):
        _require_all(~zoned, at_start, "has a zone, but other times have none")
        _require_all(~zoned_end, at_end, "has a zone, but other times have none")
        warn(f"{name}: timestamps without a zone are taken as UTC")
    if not dated and float(np.median(first)) > _MILLISECONDS:
        warn(f"{name}: times above {_MILLISECONDS:g} look like milliseconds: divide them by 1000")
    _require_all(after >= first, at_end, "is before the start")
    order = _order(client, first)
    client, first, after = client[order], first[order], after[order]
    new = np.concatenate([[True], client[1:] != client[:-1]])  # begins the intervals of a device
    named = np.minimum.reduceat(order, np.flatnonzero(new))  # the row that first names each device
    begins, after = _merged(name, new, first, after, may_touch)
    first, device = first[begins], (np.cumsum(new) - 1)[begins]
    # Devices in the order in which the log names them.
    turn = np.argsort(named)
    count = np.bincount(device, minlength=len(turn))
    offset = np.concatenate([[0], np.cumsum(count[turn])])
    rank = np.empty(len(turn), dtype=np.int64)
    rank[turn] = np.arange(len(turn))
    moved = np.arange(len(first)) + (offset[rank] - np.concatenate([[0], np.cumsum(count)[:-1]]))[device]
    sorted_first, sorted_after = np.empty_like(first), np.empty_like(after)
    sorted_first[moved], sorted_after[moved] = first, after
    return Log(name, client[new][turn], offset, sorted_first, sorted_after, dated)


def _order(client: Array, start: Floats) -> Integers:
    """The order by client, then by start."""
    n = len(client)
    if client.dtype.kind in "iu" and (int(client.max()) - int(client.min())) * n < 2**62:
        # Two sorts by one key each are several times faster than one by two keys.
        rank = np.empty(n, dtype=np.int64)
        rank[np.argsort(start)] = np.arange(n)
        return np.argsort((client - client.min()).astype(np.int64) * n + rank)
    return np.lexsort((start, *_words(client)))


def _words(client: Array) -> list[Array]:
    """Keys to sort by: texts as 64-bit words, which compare much faster."""
    if client.dtype.kind in "iu":
        return [client]
    size = -(-client.dtype.itemsize // 8) * 8
    width = size // 4 if client.dtype.kind == "U" else size
    words = np.ascontiguousarray(client.astype(f"{client.dtype.kind}{width}")).view(np.uint64).reshape(len(client), -1)
    return list(words[:, words.any(axis=0)].T)


def _merged(name: str, new: Bools, start: Floats, end: Floats, may_touch: bool) -> tuple[Bools, Floats]:
    """Which intervals begin one that no earlier interval of the device reaches, and the ends of these."""
    apart = new | np.concatenate([[True], start[1:] > end[:-1]])
    if apart.all():
        return apart, end
    # The latest end so far within each device, by ranks: devices times ranks is exact where seconds would round.
    n, device, by_end = len(end), np.cumsum(new) - 1, np.argsort(end)
    rank = np.empty(n, dtype=np.int64)
    rank[by_end] = np.arange(n)
    latest = end[by_end[np.maximum.accumulate(device * n + rank) - device * n]]
    apart = new | np.concatenate([[True], start[1:] > latest[:-1]])
    merged = n - int(apart.sum())
    if not may_touch:
        warn(f"{name}: {merged} of {n} intervals overlap or touch another of the same device and were merged with it")
    return apart, latest[np.concatenate([np.flatnonzero(apart)[1:] - 1, [n - 1]])]
