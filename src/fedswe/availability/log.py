"""Logs of the times at which devices were online: a row per device and interval, in a file or in memory.

A log may also say when each device was observed. What lies outside is unknown: a schedule takes it as unavailable,
statistics leave it out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fedswe.availability.schedule import Bools, Floats, Integers
from fedswe.availability.table import existing, is_parquet, read_parquet, read_text, reason
from fedswe.availability.trace import trace_reader
from fedswe.errors import FedsweError, require, warn

KEY = "availability.file"
OBSERVED_KEY = "availability.observed_file"
NAMES = {  # what the header may call each column, in small letters
    "client": ("client", "client_id", "device", "device_id", "id"),
    "start": ("start", "start_s", "start_time", "begin", "begin_s"),
    "end": ("end", "end_s", "end_time", "stop", "stop_s"),
}
_MILLISECONDS = 1e11  # seconds since 1970 reach it in the year 5138, milliseconds did in 1973
_TIMESTAMP, _ZONE = r"^\s*\d{4}-?\d\d-?\d\d(?:[T ]|\s*$)", r"[T ].*(?:[Zz]|[+-]\d\d(?::?\d\d)?)\s*$"


@dataclass(frozen=True, eq=False)
class Log:
    """The intervals [start, end) of each device, in order of time and disjoint.

    Devices are numbered in the order in which the log first names them.
    """

    name: str
    labels: npt.NDArray[Any]  # the ids of the devices: whole numbers, or texts
    offset: Integers  # the intervals of device k are offset[k] to offset[k + 1] - 1
    start: Floats  # seconds, of timestamps those since 1970
    end: Floats
    dated: bool  # whether the times are timestamps
    observed: Log | None = None  # when each device was observed, for the same devices; None: from first to last
    window: Integers | None = None  # the interval of `observed` that contains each interval

    @property
    def ids(self) -> Integers | None:
        return self.labels.astype(np.int64) if self.labels.dtype.kind in "iu" else None

    @property
    def devices(self) -> int:
        return len(self.offset) - 1

    @property
    def device(self) -> Integers:
        """The device of each interval."""
        return np.repeat(np.arange(self.devices), np.diff(self.offset))

    def of_clients(self, device: Integers) -> tuple[Integers, Floats, Floats]:
        """Client, start and end of the intervals of clients with these devices, one client after the other.

        The number after the last is a device without intervals.
        """
        device = np.minimum(device, self.devices)
        offset = np.append(self.offset, self.offset[-1])
        count = offset[device + 1] - offset[device]
        place = np.arange(count.sum()) + np.repeat(offset[device] - (np.cumsum(count) - count), count)
        return np.repeat(np.arange(len(device)), count), self.start[place], self.end[place]

    def digest(self) -> str:
        content = hashlib.sha256(f"{self.dated} {self.ids is not None}".encode())
        for part in (self.offset, self.start, self.end, *([] if self.ids is None else [self.ids])):
            content.update(part.tobytes())
        if self.observed is not None:
            content.update(self.observed.digest().encode())
        return content.hexdigest()

    def to_csv(self) -> str:
        """The log as a table, seconds with as many digits as they need."""
        texts = [] if self.ids is not None else self.labels.tolist()
        unreadable = next((name for name in texts if name.startswith("#")), None)
        require(unreadable is None, f"{self.name}: the id {unreadable!r} would begin a comment in a table: rename it")
        alike = all(name.isdigit() for name in texts) and len({int(name) for name in texts}) < len(texts)
        require(not alike, f"{self.name}: ids such as 1 and 01: rename them")
        frame = pd.DataFrame({"client": self.labels[self.device], "start_s": self.start, "end_s": self.end})
        return str(frame.to_csv(index=False, float_format="%.17g", lineterminator="\n"))


def read_log(path: str, observed: str = "", key: str = KEY) -> Log:
    """The log in a file: text with separated columns, Parquet, or a trace of FedScale or FLASH.

    `observed` is a second log, with the intervals in which each device was observed.
    """
    status = existing(path, key).stat()
    log = _read(path, status.st_mtime_ns, status.st_size)
    if not observed:
        return log
    require(log.observed is None, f"{OBSERVED_KEY}: {path} says itself when its devices were observed: leave it out")
    return observed_in(log, read_log(observed, key=OBSERVED_KEY))


@lru_cache(maxsize=2)  # a comparison asks for the same log once per run
def _read(path: str, changed: int, size: int) -> Log:
    """`changed` and `size` tell the contents of one path apart."""
    reader = trace_reader(path, KEY)
    if reader is not None:
        return observed_in(*(_log(frame, path) for frame in reader(path)))
    frame = _chosen(_table(path), path)
    whole = pd.to_numeric(frame.client, errors="coerce") if frame.client.dtype == object else frame.client
    return _log(frame.assign(client=whole) if whole.dtype == np.int64 else frame, path)


def is_log(path: str) -> bool:
    """Whether a file is a log of intervals: a trace, or a table with a column for the starts."""
    if path.lower().endswith((".npy", ".npz")):
        return False
    return trace_reader(path, KEY) is not None or any(_plain(name) in NAMES["start"] for name in _table(path))


def _table(path: str) -> pd.DataFrame:
    """The cells of a table whose columns have names; of a Parquet file with the index of its data frame as columns."""
    if not is_parquet(path):
        return read_text(path, KEY)
    frame = read_parquet(path, KEY)
    return (frame.reset_index() if any(frame.index.names) else frame).rename_axis("row {}, counted from 0")


def _plain(name: Any) -> str:
    return str(name).strip().lower()


def log_of(log: Any, name: str) -> Log:
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
    return _log(_chosen(frame.reset_index(drop=True).rename_axis("row {}, counted from 0"), name), name)


def observed_in(log: Log, observed: Log) -> Log:
    """The log with the times in which each device was observed; what it has outside of them is cut off."""
    require(log.dated == observed.dated, f"{observed.name}: times must be seconds or timestamps as in {log.name}")
    require((log.ids is None) == (observed.ids is None), f"{observed.name}: ids must be of the kind in {log.name}")
    place = pd.Index(observed.labels).get_indexer(pd.Index(log.labels))
    missing = log.labels[place < 0]
    lacking = f"{observed.name} lacks {len(missing)} devices of {log.name}, first {next(iter(missing), '')}"
    require(not len(missing), f"{lacking}: add when they were observed, or remove their intervals")
    # All beginnings and ends in order of time: where intervals of both are open, a device was there and observed.
    steps = pd.concat(
        pd.DataFrame({"device": device, "time": time, column: step})
        for column, part, device in (("there", log, place[log.device]), ("seen", observed, observed.device))
        for time, step in ((part.start, 1), (part.end, -1))
    ).sort_values(["device", "time"], ignore_index=True)
    begun = steps[["there", "seen"]].fillna(0).cumsum()
    following = steps.time.shift(-1)
    kept = begun.gt(0).all(axis=1) & (following > steps.time)
    require(kept.any(), f"{log.name}: no availability lies in the times of {observed.name}")
    start, end = steps.time[kept].to_numpy(), following[kept].to_numpy()
    total = float((log.end - log.start).sum())
    lost = total - float((end - start).sum())
    if lost > 1e-6 * total:
        warn(f"{log.name}: {lost:g} s of availability lie outside of the observed times and are left out")
    offset = np.concatenate([[0], np.cumsum(np.bincount(steps.device[kept], minlength=observed.devices))])
    window = (steps.seen.gt(0).cumsum() - 1)[kept].to_numpy()
    return Log(log.name, observed.labels, offset, start, end, log.dated, observed, window)


# columns -------------------------------------------------------------------------------------------------
def _chosen(frame: pd.DataFrame, source: str) -> pd.DataFrame:
    """The three columns among those of a table."""
    require(len(frame), f"{source} has no rows below a header with client, start, end")
    places = []
    names = [str(name) for name in frame]
    for column, known in NAMES.items():
        found = [place for place, name in enumerate(names) if _plain(name) in known]
        require(found, f"{source} has no column {column}: call it {' or '.join(known)}; found {', '.join(names)[:80]}")
        several = ", ".join(names[place] for place in found)
        require(len(found) == 1, f"{source} has several columns for {column}: {several}")
        places += found
    return frame.iloc[:, places].set_axis(list(NAMES), axis=1)


def _log(frame: pd.DataFrame, name: str) -> Log:
    """The log in the columns client, start, end; rows are in any order, and the index says where each was written."""
    device, labels = _devices(frame.client, name)
    start, zoned = _times(frame.start, name)
    end, zoned_end = _times(frame.end, name)
    dated = zoned is not None
    require(dated == (zoned_end is not None), f"{name}: start and end must both be seconds, or both be timestamps")
    if dated and not (zoned and zoned_end):
        warn(f"{name}: timestamps without a zone are taken as UTC")
    if not dated and float(np.median(start)) > _MILLISECONDS:
        warn(f"{name}: times above {_MILLISECONDS:g} look like milliseconds: divide them by 1000")
    _require_each(frame.end, end >= start, "is before the start", name)
    table = pd.DataFrame({"device": device, "start": start, "end": end}).sort_values(["device", "start"])
    latest = table.groupby("device").end.cummax()
    apart = ~(table.start <= latest.groupby(table.device).shift())
    if not apart.all():
        merged = f"{int((~apart).sum())} of {len(table)} intervals overlap or touch another of the same device"
        warn(f"{name}: {merged} and were merged with it")
    offset = np.concatenate([[0], np.cumsum(np.bincount(table.device[apart]))])
    last = apart.shift(-1, fill_value=True)
    return Log(name, labels, offset, table.start[apart].to_numpy(), latest[last].to_numpy(), dated)


def _require_each(column: pd.Series, good: Bools, complaint: str, name: str) -> None:
    """Refuse a column, with the place of its first cell that is not good."""
    if not good.all():
        place = str(column.index.name).format(column.index[[int(np.argmin(good))]].item())
        raise FedsweError(f"{name}: the {column.name} ({place}) {complaint}")


def _devices(client: pd.Series, name: str) -> tuple[Any, Any]:
    """The number of each row's device, in the order in which the rows name them; and the ids of the devices."""
    device, found = pd.factorize(client)
    _require_each(client, device >= 0, "is missing", name)
    ids = np.asarray(found)
    if ids.dtype.kind == "f":
        whole = (ids == np.round(ids)) & (np.abs(ids) < 2**53)
        _require_each(client, whole[device], "is not a whole number or a text", name)
        return device, ids.astype(np.int64)
    if ids.dtype.kind in "iu":
        return device, ids
    _require_each(client, np.array([value != "" for value in ids])[device], "is empty", name)
    device_of_text, texts = pd.factorize(np.array([str(value) for value in ids], dtype=object))
    return device_of_text[device], texts


def _times(column: pd.Series, name: str) -> tuple[Floats, bool | None]:
    """A column of times in seconds, of timestamps since 1970; of these also whether all have a zone."""
    if column.dtype.kind == "M":  # of numpy, pandas or Parquet, where it is UTC
        _require_each(column, column.notna().to_numpy(), "is missing", name)
        return _seconds_since_1970(column), True
    try:
        seconds = column.to_numpy(object).astype(np.float64)
    except (ValueError, TypeError, OverflowError):
        texts = column.astype(str)
        dates = texts.str.contains(_TIMESTAMP).to_numpy(bool)
        if not dates[0]:
            good = pd.to_numeric(texts, errors="coerce").notna().to_numpy()
            wrong = "is not a number of seconds, nor a timestamp such as 2026-01-31T18:00:00Z"
            _require_each(column, good, wrong, name)
        moments = pd.to_datetime(texts.where(dates), utc=True, format="ISO8601", errors="coerce")
        good = moments.notna().to_numpy()
        _require_each(column, good, "is not a timestamp such as 2026-01-31T18:00:00Z", name)
        return _seconds_since_1970(moments), bool(texts.str.contains(_ZONE).all())
    _require_each(column, np.isfinite(seconds), "is not a number of seconds", name)
    return seconds, None


def _seconds_since_1970(moments: pd.Series) -> Floats:
    return np.asarray(pd.DatetimeIndex(moments).as_unit("us").asi8 / 1e6)
