"""Records of availability in files and in memory: tables with a row per round, and logs of the times online.

A log has a row per device and interval. It may also say when each device was observed. What lies outside is unknown: a
schedule takes it as unavailable, statistics leave it out.

FedScale has {id: {active: [s], inactive: [s], finish_time, ...}}: a device is available from active[k] to inactive[k],
and observed from 0 to finish_time. FLASH has {id: {guid, model, messages: "time\\tevent\\n..."}}: a device is available
while it is locked, charged and on Wi-Fi, and observed from its first message to its last. FLASH drops an interval that
is still open at the last message; here it ends there.
"""

from __future__ import annotations

import codecs
import hashlib
import io
import json
import os
import pickle
import pickletools
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt
import pandas as pd

from fedswe.availability.schedule import Bools, Floats, Integers
from fedswe.errors import FedsweError, needed, require, warn

Orient = Literal["", "rounds", "clients"]


def existing(path: str, key: str) -> Path:
    require(Path(path).is_file(), f"{key}: there is no file {path}")
    return Path(path)


def reason(error: Exception) -> str:
    """Why a file cannot be read, in a few words."""
    if isinstance(error, UnicodeError):
        return "not UTF-8 text"
    text = getattr(error, "strerror", None) or str(error)
    return next(iter(text.splitlines()), type(error).__name__)


# text and Parquet ----------------------------------------------------------------------------------------
def read_text(path: str, key: str, is_header: Callable[[list[str]], bool] = bool) -> pd.DataFrame:
    """The cells as texts, so that numbers are Python's to the last bit; the columns have names if there is a header.

    Cells are separated by ; tab , or white space. Blank lines and lines that begin with # are left out; the index has
    the numbers of the lines, and the name "line {}".
    """
    options: dict[str, Any] = {"header": None, "dtype": object, "keep_default_na": False, "skipinitialspace": True}
    numbers: list[int] = []
    try:
        text = existing(path, key).read_text("utf-8-sig").split("\n")
        numbers = [n for n, line in enumerate(text, 1) if line.strip() and not line.lstrip().startswith("#")]
        lines = [text[n - 1] for n in numbers]
        # Where cells have decimal commas, or timestamps have spaces, the separator is another one.
        separator = next((mark for mark in ";\t," if lines and mark in lines[0]), r"\s+")
        cells = pd.read_csv(io.StringIO("\n".join(lines)), sep=separator, **options) if lines else pd.DataFrame()
    except (OSError, ValueError) as error:  # pandas counts the lines that it was given
        why = re.sub(r"(?<=line )\d+", lambda found: str(numbers[int(found[0]) - 1]), reason(error))
        raise FedsweError(f"{key}: {path} cannot be read as a table ({why})") from None
    require(len(cells) == len(numbers), f"{key}: {path} has a cell with several lines")
    cells = cells.set_axis(pd.Index(numbers, name="line {}"))
    header = [cell.strip() for cell in cells.iloc[:1].to_numpy().ravel()]
    return cells.iloc[1:].set_axis(header, axis=1) if is_header(header) else cells


def is_parquet(path: str) -> bool:
    return path.lower().endswith((".parquet", ".pq"))


def read_parquet(path: str, key: str) -> pd.DataFrame:
    existing(path, key)
    needed("pyarrow", "paper")
    try:
        return pd.read_parquet(path)
    except (OSError, ValueError, TypeError, NotImplementedError) as error:
        raise FedsweError(f"{key}: {path} cannot be read as Parquet ({reason(error)})") from None


# tables with a row per round and a column per client ---------------------------------------------------------
_TRUTH = {"true": 1.0, "false": 0.0}
_INDEX_NAMES = {"", "index", "round", "t", "time", "unnamed: 0"}
_DATE = re.compile(r"\d+[-/.]\d+[-/.]\d+|\d:\d\d")


@dataclass(frozen=True, eq=False)
class Table:
    """Numbers, a row per round and a column per client."""

    values: Floats
    name: str

    def require_everywhere(self, legal: Bools, rule: str) -> None:
        """Refuse the table, with the first value that is not legal and its place."""
        if not legal.all():
            t, i = np.argwhere(~legal)[0]
            place = f"(round {t}, client {i}, counted from 0)"
            raise FedsweError(f"{self.name} {rule}, found {self.values[t, i]:g} {place}")

    def require_clients(self, m: int) -> None:
        rows, found = self.values.shape
        turned = '; set availability.orient = "clients" if its rows are clients' if rows == m else ""
        require(found == m, f"{self.name} has {found} columns for {m} clients: give one column per client{turned}")


def table_of(array: Any, name: str, orient: Orient = "") -> Table:
    """A table from a numpy array, a torch tensor, nested lists or a data frame."""
    if isinstance(array, pd.DataFrame):
        _require_rounds(array.columns, array.index, name, orient)
    elif hasattr(array, "detach"):  # a tensor, perhaps on a GPU
        array = array.detach().cpu().numpy()
    try:
        if np.iscomplexobj(array):
            raise TypeError("it holds complex numbers")
        values = np.array(array, dtype=np.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise FedsweError(f"{name} is not a table of numbers, rows of equal length ({reason(error)})") from None
    require(
        values.ndim == 2,
        f"{name} must have two dimensions, a row per round and a column per client, not the shape {values.shape}",
    )
    require(values.size, f"{name} is empty")
    return Table(values.T.copy() if orient == "clients" else values, name)


def read_table(path: str, key: str, array: str, array_key: str, orient: Orient) -> Table:
    """A table from a text file, .npy, .npz or Parquet, named by the configuration key `key`.

    `array` names the array of an .npz file with several; it is given by `array_key`.
    """
    name = f"{key}: {path}"
    if path.lower().endswith((".npy", ".npz")):
        return table_of(_numpy_file(path, key, array, array_key), name, orient)
    if is_parquet(path):
        return table_of(read_parquet(path, key), name, orient)
    cells = read_text(path, key, _is_header)
    header, names = (
        ([] if cells.columns.dtype.kind == "i" else list(cells.columns)),
        cells.iloc[:, :1].to_numpy().ravel(),
    )
    # Below a header, the first column may also hold names of the rows, such as dates.
    named = bool(header) and (header[0].lower() in _INDEX_NAMES or _number("".join(names[:1])) is None)
    if named or (cells.shape[1] > 1 and _counts([_number(cell) for cell in names])):
        cells = cells.iloc[:, 1:]
        if header:
            _require_rounds(header[1:], names, name, orient)
    return table_of(_values(cells, name), name, orient)


def _numpy_file(path: str, key: str, array: str, array_key: str) -> Any:
    existing(path, key)
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            names = loaded.files
            chosen = array or (names[0] if len(names) == 1 else "")
            if chosen in names:
                return loaded[chosen]
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        # numpy takes any other file for pickled objects, and advises to load them.
        why = "not a numpy file, or one with Python objects" if "pickle" in str(error) else reason(error)
        raise FedsweError(f"{key}: {path} cannot be read as a numpy file ({why})") from None
    wanted = f"has no array {chosen}" if chosen else "has several arrays"
    raise FedsweError(f"{key}: {path} {wanted}: choose one of {', '.join(names)} with {array_key}")


def _require_rounds(header: Sequence[Any], names: Sequence[Any], name: str, orient: Orient) -> None:
    """Refuse a table whose columns are counted as rounds are, while its rows have names as clients have."""
    if orient or not _counts([_number(str(cell)) for cell in header]):
        return
    first = next((str(cell) for cell in names if _number(str(cell)) is None and not _DATE.search(str(cell))), None)
    require(
        first is None,
        f"{name}: the columns are counted and a row is called {str(first)[:40]!r}: set availability.orient = "
        '"clients" if the rows are clients, "rounds" if they are rounds',
    )


def _values(cells: pd.DataFrame, name: str) -> Floats:
    """Numbers and truth values; anything else is refused."""
    with suppress(ValueError):
        return np.asarray(cells.to_numpy(object).astype(np.float64))
    for line, row in cells.iterrows():
        wrong = next((cell for cell in row if _number(cell) is None), None)
        require(wrong is None, f"{name}: line {line}: {str(wrong)[:40]!r} is not a number")
    return np.asarray(cells.map(_number), dtype=np.float64)


def _is_header(cells: Sequence[str]) -> bool:
    """Whether a row has names, or counts its columns from 0 or 1 as data frames do."""
    numbers = [_number(cell) for cell in cells]
    named = len(set(cells)) == len(cells) > 0 and all(number is None for number in numbers)
    return named or _counts(numbers) or (bool(cells) and numbers[0] is None and _counts(numbers[1:]))


def _counts(numbers: Sequence[float | None]) -> bool:
    """Whether the numbers are 0, 1, 2, ... or 1, 2, ...: with a 2 among them they are no values."""
    first, n = next(iter(numbers), None), len(numbers)
    return first in (0, 1) and first + n > 2 and list(numbers) == list(range(int(first), int(first) + n))


def _number(cell: str) -> float | None:
    try:
        return _TRUTH[cell.lower()] if cell.lower() in _TRUTH else float(cell)
    except ValueError:
        return None


# logs with a row per device and interval ----------------------------------------------------------------------
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
    def names(self) -> list[Any]:
        """The ids of the devices, as whole numbers or texts."""
        return list(self.labels.tolist())

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

    def of_devices(self, device: Integers) -> tuple[Integers, Integers]:
        """Which intervals belong to these devices, one device after the other, and how many to each.

        The number after the last is a device without intervals.
        """
        device = np.minimum(device, self.devices)
        offset = np.append(self.offset, self.offset[-1])
        count = offset[device + 1] - offset[device]
        return np.arange(count.sum()) + np.repeat(offset[device] - (np.cumsum(count) - count), count), count

    def digest(self) -> str:
        content = hashlib.sha256(f"{self.dated} {self.ids is not None}".encode())
        for part in (self.offset, self.start, self.end, *([] if self.ids is None else [self.ids])):
            content.update(part.tobytes())
        if self.observed is not None:
            content.update(self.observed.digest().encode())
        return content.hexdigest()

    def to_csv(self) -> str:
        """The log as a table, seconds with as many digits as they need."""
        texts = [] if self.ids is not None else self.names
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
    status = os.stat(existing(path, key))
    log = _read(path, status.st_mtime_ns, status.st_size)
    if not observed:
        return log
    require(log.observed is None, f"{OBSERVED_KEY}: {path} says itself when its devices were observed: leave it out")
    return observed_in(log, read_log(observed, key=OBSERVED_KEY))


@lru_cache(maxsize=2)  # a comparison asks for the same log once per run
def _read(path: str, changed: int, size: int) -> Log:
    """`changed` and `size` tell the contents of one path apart."""
    trace = trace_reader(path, KEY)
    if trace is not None:
        available, observed, dated = trace(path)
        return observed_in(*(replace(_log(frame, path), dated=dated) for frame in (available, observed)))
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
    return _log(frame.reset_index(drop=True).rename_axis("row {}, counted from 0"), name)


def observed_in(log: Log, observed: Log) -> Log:
    """The log with the times in which each device was observed; what it has outside of them is cut off."""
    require(
        log.dated == observed.dated, f"{observed.name}: times must be seconds or timestamps as those in {log.name} are"
    )
    require(
        (log.ids is None) == (observed.ids is None), f"{observed.name}: ids must be of the kind that {log.name} has"
    )
    place = pd.Index(observed.labels).get_indexer(pd.Index(log.labels))
    missing = log.labels[place < 0]
    require(
        not len(missing),
        f"{observed.name} lacks {len(missing)} devices of {log.name}, first {next(iter(missing), '')}: "
        "add when they were observed, or remove their intervals",
    )
    # All beginnings and ends in order of time: where intervals of both are open, a device was there and observed.
    device = np.concatenate([np.repeat(place[log.device], 2), np.repeat(observed.device, 2)])
    time = np.concatenate([np.stack([part.start, part.end], axis=1).ravel() for part in (log, observed)])
    steps = np.zeros((2, len(time)), dtype=np.int64)
    ours = 2 * len(log.start)
    steps[0, :ours:2], steps[0, 1:ours:2], steps[1, ours::2], steps[1, ours + 1 :: 2] = 1, -1, 1, -1
    order = np.lexsort((time, device))
    there, seen = np.cumsum(steps[:, order], axis=1)[:, :-1]
    time, device = time[order], device[order]
    kept = (there > 0) & (seen > 0) & (time[1:] > time[:-1])
    require(kept.any(), f"{log.name}: no availability lies in the times of {observed.name}")
    start, end = time[:-1][kept], time[1:][kept]
    total = float((log.end - log.start).sum())
    lost = total - float((end - start).sum())
    if lost > 1e-6 * total:
        warn(f"{log.name}: {lost:g} s of availability lie outside of the observed times and are left out")
    offset = np.concatenate([[0], np.cumsum(np.bincount(device[:-1][kept], minlength=observed.devices))])
    window = np.cumsum(steps[1, order] > 0)[:-1][kept] - 1
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
    """The log in three columns among others; rows are in any order, and the index says where each was written."""
    frame = _chosen(frame, name)

    def check(column: str, good: Bools, complaint: str) -> None:
        if not good.all():
            place = str(frame.index.name).format(frame.index[int(np.argmin(good))])
            raise FedsweError(f"{name}: the {column} ({place}) {complaint}")

    device, labels = _devices(frame.client, partial(check, "client"))
    start, zoned = _times(frame.start, partial(check, "start"))
    end, zoned_end = _times(frame.end, partial(check, "end"))
    dated = zoned is not None
    require(dated == (zoned_end is not None), f"{name}: start and end must both be seconds, or both be timestamps")
    if dated and not (zoned and zoned_end):
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
    offset = np.concatenate([[0], np.cumsum(np.bincount(table.device[apart]))])
    last = apart.shift(-1, fill_value=True)
    return Log(name, labels, offset, table.start[apart].to_numpy(), latest[last].to_numpy(), dated)


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


def _times(column: pd.Series, check: Callable[[Bools, str], None]) -> tuple[Floats, bool | None]:
    """A column of times in seconds; of timestamps also whether all have a zone."""
    if column.dtype.kind == "M":  # of numpy, pandas or Parquet, where it is UTC
        check(column.notna().to_numpy(), "is missing")
        return seconds_since_1970(column), True
    try:
        seconds = column.to_numpy(object).astype(np.float64)
    except (ValueError, TypeError, OverflowError):
        texts = column.astype(str)
        dates = texts.str.contains(_TIMESTAMP).to_numpy(bool)
        if not dates[0]:
            good = pd.to_numeric(texts, errors="coerce").notna().to_numpy()
            check(good, "is not a number of seconds, nor a timestamp such as 2026-01-31T18:00:00Z")
        moments = pd.to_datetime(texts.where(dates), utc=True, format="ISO8601", errors="coerce")
        check(moments.notna().to_numpy(), "is not a timestamp such as 2026-01-31T18:00:00Z")
        return seconds_since_1970(moments), bool(texts.str.contains(_ZONE).all())
    check(np.isfinite(seconds), "is not a number of seconds")
    return seconds, None


# traces of others --------------------------------------------------------------------------------------------
LONGEST = 50_000_000  # intervals of a trace; a small pickle can name the same list millions of times

Spans = dict[Any, tuple[list[float], list[float]]]  # device -> starts, ends


# The intervals of a file, those in which each device was observed, and whether times are seconds since 1970.
Trace = tuple[pd.DataFrame, pd.DataFrame, bool]


def trace_reader(path: str, key: str) -> Callable[[str], Trace] | None:
    """The reader for a trace of FedScale or FLASH, recognised by its first bytes; None for a table."""
    with existing(path, key).open("rb") as stream:
        head = stream.read(4096)
    if head[:1] == b"\x80" or head.startswith((b"(dp", b"}")):  # pickles of protocol 2 and later, 0, 1
        return _fedscale
    return _flash if head.removeprefix(codecs.BOM_UTF8).lstrip()[:1] == b"{" else None


def _frame(spans: Spans, path: str) -> pd.DataFrame:
    """Columns client, start and end, device by device."""
    count = [len(start) for start, _ in spans.values()]
    require(sum(count) > 0, f"{path}: no device is ever available")
    require(sum(count) <= LONGEST, f"{path} has more than {LONGEST:,} intervals")
    for device in spans:
        good = not isinstance(device, str) or (device and device.isprintable())
        require(good, f"{path}: ids need printable characters, not {str(device)[:40]!r}")
    client = np.repeat(pd.Index(list(spans)).to_numpy(), count)
    start, end = (np.fromiter(chain.from_iterable(times), np.float64) for times in zip(*spans.values(), strict=True))
    return pd.DataFrame({"client": client, "start": start, "end": end}, index=pd.Index(client, name="device {!r}"))


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
    return _frame(available, path), _frame(observed, path), False


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
    return _frame(available, path), _frame(observed, path), True


def _spans(messages: str) -> tuple[tuple[list[float], list[float]], tuple[list[float], list[float]]]:
    """Starts and ends of the intervals in which a device is available, and its first and its last message."""
    rows = [line.split("\t") for line in messages.splitlines() if line.strip()]
    if not rows or any(len(row) != 2 for row in rows):
        raise ValueError("a message is not a time, a tab and an event")
    moments = pd.to_datetime([row[0].strip() for row in rows], utc=True, format="ISO8601", errors="coerce")
    if moments.hasnans:
        raise ValueError(f"the time {rows[int(moments.isna().argmax())][0][:40]!r} cannot be read")
    events = pd.Series([row[1].strip().lower() for row in rows], seconds_since_1970(moments)).sort_index(kind="stable")
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


def seconds_since_1970(moments: Any) -> Floats:
    return np.asarray(pd.DatetimeIndex(moments).as_unit("us").asi8 / 1e6)
