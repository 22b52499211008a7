"""A log of intervals in memory: the times at which each device was online, and those in which it was observed."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedswe.availability.schedule import Floats
from fedswe.errors import require, warn

Integers = npt.NDArray[np.int64]


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


def observed_in(log: Log, observed: Log) -> Log:
    """The log with the times in which each device was observed; what it has outside of them is cut off."""
    require(
        log.dated == observed.dated, f"{observed.name}: times must be seconds or timestamps as those in {log.name} are"
    )
    require(
        (log.ids is None) == (observed.ids is None), f"{observed.name}: ids must be of the kind that {log.name} has"
    )
    place = {label: k for k, label in enumerate(observed.names)}
    missing = [label for label in log.names if label not in place]
    require(
        not missing,
        f"{observed.name} lacks {len(missing)} devices of {log.name}, first {missing[0] if missing else ''}: "
        "add when they were observed, or remove their intervals",
    )
    device = np.repeat(np.array([place[label] for label in log.names], dtype=np.int64), np.diff(log.offset))
    first, last = _windows(observed, device, log.start, log.end)
    pair = np.repeat(np.arange(len(device)), last - first)
    window = np.arange(len(pair)) + np.repeat(first - (np.cumsum(last - first) - (last - first)), last - first)
    start, end = np.maximum(log.start[pair], observed.start[window]), np.minimum(log.end[pair], observed.end[window])
    kept = (end > start) | ((end == start) & (log.end[pair] == log.start[pair]))
    require(kept.any(), f"{log.name}: no availability lies in the times of {observed.name}")
    lost = float((log.end - log.start).sum() - (end - start)[kept].sum())
    if lost > 1e-6 * float((log.end - log.start).sum()):
        warn(f"{log.name}: {lost:g} s of availability lie outside of the observed times and are left out")
    device, start, end = device[pair][kept], start[kept], end[kept]
    order = np.lexsort((start, device))
    offset = np.concatenate([[0], np.cumsum(np.bincount(device, minlength=observed.devices))])
    return Log(log.name, observed.labels, offset, start[order], end[order], log.dated, observed)


def _windows(observed: Log, device: Integers, start: Floats, end: Floats) -> tuple[Integers, Integers]:
    """For each interval the observations of its device that may meet it: the first, and the one after the last.

    Devices lie one after the other on a line of seconds. Its sums are rounded, so a neighbour on each side is added.
    """
    origin = min(float(observed.start.min()), float(start.min(initial=math.inf)))
    length = max(float(observed.end.max()), float(end.max(initial=-math.inf))) - origin + 1.0
    home = np.repeat(np.arange(observed.devices), np.diff(observed.offset)) * length - origin
    first = np.searchsorted(home + observed.end, device * length - origin + start) - 1
    last = np.searchsorted(home + observed.start, device * length - origin + end, side="right") + 1
    return np.maximum(first, observed.offset[device]), np.minimum(last, observed.offset[device + 1])


def observation_of(log: Log) -> Integers:
    """For each interval of a log the observation of its device that contains it."""
    assert log.observed is not None
    device = np.repeat(np.arange(log.devices), np.diff(log.offset))
    first, last = _windows(log.observed, device, log.start, log.end)
    window = first.copy()
    while (late := (log.observed.end[window] < log.end) & (window < last - 1)).any():
        window[late] += 1
    return window
