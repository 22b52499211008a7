"""Logs of the times at which devices were online, read from files and arrays: one row per device and interval.

A log may also say when each device was observed. What lies outside is unknown: a schedule takes it as unavailable,
statistics leave it out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedswe.availability import traces
from fedswe.availability.log import Log, observed_in
from fedswe.availability.schedule import Bools, Floats
from fedswe.availability.text_file import TextFile, existing, is_parquet, open_text, read_parquet, reason
from fedswe.errors import FedsweError, require, warn

KEY = "availability.file"
OBSERVED_KEY = "availability.observed_file"
NAMES = {  # what the header may call each column, in small letters
    "client": ("client", "client_id", "device", "device_id", "id"),
    "start": ("start", "start_s", "start_time", "begin", "begin_s"),
    "end": ("end", "end_s", "end_time", "stop", "stop_s"),
}
_MILLISECONDS = 1e11  # seconds since 1970 reach it in the year 5138, milliseconds did in 1973
_DATE, _ZONE = r"^\s*\d{4}-?\d\d-?\d\d(?:[T ]|\s*$)", r"[T ].*(?:[Zz]|[+-]\d\d(?::?\d\d)?)\s*$"

Place = Callable[[int], str]  # where a row is written, for messages


def read(path: str, observed: str = "", key: str = KEY) -> Log:
    """The log in a file: text with separated columns, Parquet, or a trace of FedScale or FLASH.

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
    if is_parquet(path):
        return _from_frame(_parquet(path), path)
    reader = traces.reader_of(Path(path))
    return _from_text(open_text(path, KEY)) if reader is None else _from_trace(reader(Path(path)), path)


def is_log(path: str) -> bool:
    """Whether a file is a log of intervals: a format of others, or a table with three columns or their names."""
    if path.lower().endswith((".npy", ".npz")):
        return False
    if is_parquet(path):
        return _has_names(_parquet(path))
    if traces.reader_of(Path(path)) is not None:
        return True
    try:
        first = next(open_text(path, KEY).lines(), (0, []))[1]
    except ValueError as error:
        raise FedsweError(f"{path} cannot be read ({reason(error)})") from None
    # Without names, rows of client, start, end hold something else than 0 and 1.
    return _has_names(first) or (len(first) == 3 and not set(first) <= {"0", "1", "true", "false"})


def _has_names(found: Any) -> bool:
    names = {str(name).strip().lower() for name in found}
    return bool(names & set(NAMES["start"])) and bool(names & set(NAMES["end"]))


def csv_text(log: Log) -> str:
    """The log as a table, seconds with as many digits as they need."""
    if log.ids is None:
        unreadable = next((name for name in log.names if name.startswith("#")), None)
        require(unreadable is None, f"{log.name}: the id {unreadable!r} would begin a comment in a table: rename it")
        if all(name.isdigit() for name in log.names):
            alike = len({int(name) for name in log.names}) < log.devices
            require(not alike, f"{log.name}: ids such as 1 and 01: rename them")
    client = np.repeat(log.labels, np.diff(log.offset))
    frame = pd.DataFrame({"client": client, "start_s": log.start, "end_s": log.end})
    return str(frame.to_csv(index=False, float_format="%.17g", lineterminator="\n"))


def from_memory(log: Any, name: str) -> Log:
    """The log in a data frame, a dictionary of columns, a structured array, or rows of client, start, end."""
    try:
        if hasattr(log, "to_pandas"):
            log = log.to_pandas()
        whole = isinstance(log, pd.DataFrame | Mapping | np.ndarray)
        frame = pd.DataFrame(log if whole else dict(enumerate(zip(*log, strict=True))))
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise FedsweError(f"{name} is not a table with rows of client, start, end ({reason(error)})") from None
    if not any(isinstance(column, str) for column in frame):
        require(frame.shape[1] == 3, f"{name} has {frame.shape[1]} columns: give client, start and end")
        frame.columns = list(NAMES)
    return _from_frame(frame, name)


def _from_trace(trace: traces.Trace, path: str) -> Log:
    parts = []
    for spans in (trace.available, trace.observed):
        frame = traces.frame(spans, path)
        require(len(frame), f"{path}: no device is ever available")

        def place(i: int, client: pd.Series = frame.client) -> str:
            return f"device {client[i]!r}, interval {(client[: i + 1] == client[i]).sum()}"

        parts.append(replace(_from_frame(frame, path, place), dated=trace.dated))
    return observed_in(*parts)


def _from_text(text: TextFile) -> Log:
    path = str(text.path)
    try:
        number, first = next(text.lines(), (1, []))
        header = bool({cell.lower() for cell in first} & {*NAMES["start"], *NAMES["client"]})
        skipped = number if header else number - 1
        frame = text.frame(skipped)
    except pd.errors.EmptyDataError:
        raise FedsweError(f"{KEY}: {path} has no rows: give client, start, end") from None
    except (ValueError, OSError) as error:
        raise FedsweError(f"{KEY}: {path} cannot be read ({reason(error)})") from None
    width = frame.shape[1]
    require(
        header or width == 3, f"{KEY}: {path} has {width} columns and no header: name the columns client, start, end"
    )
    names = first if header else list(NAMES)
    require(len(names) == width, f"{KEY}: {path} has {width} columns in its first row, but {len(names)} in its header")

    def place(i: int) -> str:
        hint = "" if header or i else "; name the columns client, start, end if this line is a header"
        return text.line_of(i, skipped, comments=False) + hint

    frame = _chosen(frame.set_axis(names, axis=1), path)
    whole = pd.to_numeric(frame.client, errors="coerce")
    return _log(frame.assign(client=whole) if whole.dtype == np.int64 else frame, path, place)


def _parquet(path: str) -> pd.DataFrame:
    """A Parquet file with the index of its data frame as columns."""
    frame = read_parquet(path, KEY)
    return frame.reset_index() if any(frame.index.names) else frame


# columns -------------------------------------------------------------------------------------------------
def _chosen(frame: pd.DataFrame, source: str) -> pd.DataFrame:
    """The three columns among those of a table."""
    places = []
    names = [str(name) for name in frame]
    for column, known in NAMES.items():
        found = [place for place, name in enumerate(names) if name.strip().lower() in known]
        require(found, f"{source} has no column {column}: call it {' or '.join(known)}; found {', '.join(names)[:80]}")
        several = ", ".join(names[place] for place in found)
        require(len(found) == 1, f"{source} has several columns for {column}: {several}")
        places += found
    return frame.iloc[:, places].set_axis(list(NAMES), axis=1).reset_index(drop=True)


def _from_frame(frame: pd.DataFrame, name: str, place: Place = "row {}, counted from 0".format) -> Log:
    return _log(_chosen(frame, name), name, place)


def _log(frame: pd.DataFrame, name: str, place: Place) -> Log:
    """The log of three columns, its rows in any order."""
    require(len(frame), f"{name} has no rows: give client, start, end")

    def check(column: str, good: Bools, complaint: str) -> None:
        if not good.all():
            raise FedsweError(f"{name}: the {column} ({place(int(np.argmin(good)))}) {complaint}")

    device, labels = _devices(frame.client, partial(check, "client"))
    start, zoned = _seconds(frame.start, partial(check, "start"))
    end, zoned_end = _seconds(frame.end, partial(check, "end"))
    dated = zoned is not None
    require(dated == (zoned_end is not None), f"{name}: start and end must both be seconds, or both be timestamps")
    if zoned is not None and zoned_end is not None and not (zoned.all() and zoned_end.all()):
        check("start", ~zoned, "has a zone, but other times have none")
        check("end", ~zoned_end, "has a zone, but other times have none")
        warn(f"{name}: timestamps without a zone are taken as UTC")
    if not dated and float(np.median(start)) > _MILLISECONDS:
        warn(f"{name}: times above {_MILLISECONDS:g} look like milliseconds: divide them by 1000")
    check("end", end >= start, "is before the start")
    table = pd.DataFrame({"device": device, "start": start, "end": end}).sort_values(["device", "start"])
    latest = table.groupby("device").end.cummax()
    apart = ~(table.start <= latest.groupby(table.device).shift())
    if not apart.all():
        merged = f"{int((~apart).sum())} of {len(table)} intervals overlap or touch another of the same device"
        warn(f"{name}: {merged} and were merged with it")
    count = np.bincount(table.device[apart])
    last = apart.shift(-1, fill_value=True)
    return Log(
        name,
        labels,
        np.concatenate([[0], np.cumsum(count)]),
        table.start[apart].to_numpy(),
        latest[last].to_numpy(),
        dated,
    )


def _devices(client: pd.Series, check: Callable[[Bools, str], None]) -> tuple[Any, Any]:
    """The number of each row's device, in the order in which the rows name them; and the ids of the devices."""
    device, found = pd.factorize(client)
    check(device >= 0, "is missing")
    ids = found.to_numpy() if hasattr(found, "to_numpy") else found
    if ids.dtype.kind == "f":
        whole = (ids == np.round(ids)) & (np.abs(ids) < 2**53)
        check(whole[device], "is not a whole number or a text")
        return device, ids.astype(np.int64)
    if ids.dtype.kind in "iu":
        return device, ids
    check(np.array([value != "" for value in ids])[device], "is empty")
    device_of_text, texts = pd.factorize(np.array([str(value) for value in ids], dtype=object))
    return device_of_text[device], texts


def _seconds(column: pd.Series, check: Callable[[Bools, str], None]) -> tuple[Floats, Bools | None]:
    """A column of times in seconds; of timestamps also which have a zone."""
    if column.dtype.kind == "M":  # of numpy, pandas or Parquet, where it is UTC
        check(column.notna().to_numpy(), "is missing")
        return _since_1970(column), np.ones(len(column), dtype=bool)
    values = column.to_numpy(object)
    try:
        seconds = values.astype(np.float64)
    except (ValueError, TypeError, OverflowError):
        texts = column.astype(str)
        dates = texts.str.contains(_DATE).to_numpy(bool)
        if not dates[0]:
            good = pd.to_numeric(texts, errors="coerce").notna().to_numpy()
            check(good, "is not a number of seconds, nor a timestamp such as 2026-01-31T18:00:00Z")
        moments = pd.to_datetime(texts.where(dates), utc=True, format="ISO8601", errors="coerce")
        check(moments.notna().to_numpy(), "is not a timestamp such as 2026-01-31T18:00:00Z")
        return _since_1970(moments), texts.str.contains(_ZONE).to_numpy(bool)
    check(np.isfinite(seconds), "is not a number of seconds")
    return seconds, None


def _since_1970(moments: pd.Series) -> Floats:
    return np.asarray(pd.DatetimeIndex(moments).as_unit("us").asi8 / 1e6)
