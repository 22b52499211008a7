"""FedScale's availability trace: a pickle {id: {active: [s], inactive: [s], finish_time, ...}}.

A device is available from active[k] to inactive[k], and observed from 0 to finish_time. A pickle can name functions to
call; this one is read by an unpickler that finds no names, so it yields numbers, texts, lists and dictionaries only.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from fedswe.availability.trace_formats.spans import Spans, Trace
from fedswe.errors import FedsweError, require

_FIELDS = ("active", "inactive", "finish_time")


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}, a trace holds numbers only")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it refers to objects outside of the file")


def recognised(head: bytes) -> bool:
    return head[:1] == b"\x80" or head.startswith((b"(dp", b"}"))  # protocol 2 and later, 0, 1


def read(path: Path) -> Trace:
    try:
        with path.open("rb") as stream:
            devices = _PlainUnpickler(stream).load()
    except Exception as error:  # a damaged pickle raises whatever the operation it reached raises
        raise FedsweError(f"{path} cannot be read as FedScale's trace ({_reason(error)})") from None
    require(isinstance(devices, dict), f"{path} holds no dictionary of devices, as FedScale's trace does")
    available, observed = Spans(), Spans()
    for device, entry in devices.items():
        where = f"{path}: device {str(device)[:40]!r}"
        require(isinstance(device, int | str), f"{where} has an id that is neither a number nor a text")
        require(
            isinstance(entry, dict) and all(name in entry for name in _FIELDS), f"{where} needs {', '.join(_FIELDS)}"
        )
        active, inactive, finish = (entry[name] for name in _FIELDS)
        require(
            isinstance(active, list) and isinstance(inactive, list),
            f"{where}: active and inactive must be lists of seconds",
        )
        require(
            len(inactive) in (len(active), len(active) - 1),
            f"{where}: {len(active)} times in active, but {len(inactive)} in inactive",
        )
        ends = inactive if len(inactive) == len(active) else [*inactive, finish]
        for time in (*active, *ends, finish):
            require(isinstance(time, int | float), f"{where}: {str(time)[:40]!r} is not a number of seconds")
        require(finish > 0, f"{where}: finish_time must be positive, not {finish}")
        available.add(device, active, ends, str(path))
        observed.add(device, [0.0], [finish], str(path))
    require(observed.start, f"{path} has no devices")
    return Trace(available, observed)


def _reason(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:120]
