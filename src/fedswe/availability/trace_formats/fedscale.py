"""FedScale's availability trace: a pickle {id: {active: [s], inactive: [s], finish_time, ...}}.

A device is available from active[k] to inactive[k], and observed from 0 to finish_time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedswe.availability.trace_formats import plain_pickle
from fedswe.availability.trace_formats.spans import Spans, Trace
from fedswe.errors import FedsweError, require

_FIELDS = ("active", "inactive", "finish_time")


def recognised(head: bytes) -> bool:
    return head[:1] == b"\x80" or head.startswith((b"(dp", b"}"))  # protocol 2 and later, 0, 1


def read(path: Path) -> Trace:
    try:
        devices = plain_pickle.loads(path.read_bytes())
    except ValueError as error:
        reason = str(error).splitlines()[0][:120]
        raise FedsweError(f"{path} cannot be read as FedScale's trace ({reason})") from None
    require(isinstance(devices, dict) and devices, f"{path} holds no dictionary of devices, as FedScale's trace does")
    require(len({type(device) for device in devices}) == 1, f"{path}: some ids are whole numbers, others are texts")
    available, observed = Spans(str(path)), Spans(str(path))
    for device, entry in devices.items():
        where = f"{path}: device {str(device)[:40]!r}"
        require(
            isinstance(entry, dict) and all(name in entry for name in _FIELDS), f"{where} needs {', '.join(_FIELDS)}"
        )
        active, inactive, finish = (entry[name] for name in _FIELDS)
        require(_seconds(active) and _seconds(inactive), f"{where}: active and inactive must be lists of seconds")
        require(
            len(inactive) in (len(active), len(active) - 1),
            f"{where}: {len(active)} times in active, but {len(inactive)} in inactive",
        )
        require(_seconds([finish]) and finish > 0, f"{where}: finish_time must be a positive number of seconds")
        available.add(device, active, inactive if len(inactive) == len(active) else [*inactive, finish])
        observed.add(device, [0.0], [finish])
    return Trace(available, observed)


def _seconds(values: Any) -> bool:
    return type(values) is list and all(type(value) in (int, float) for value in values)
