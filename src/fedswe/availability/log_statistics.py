"""Statistics of an interval log in seconds: shares of time, sessions, outages, and the signs of padded edges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedswe.availability.logs import Integers, Log
from fedswe.availability.schedule import Floats
from fedswe.availability.statistics import DAY

SHORT = 60.0  # seconds: a session below it is a device that goes on and off
_HOUR = 3600.0


@dataclass(frozen=True, eq=False)
class LogStatistics:
    """Of the time from `start` to `end`; what lies outside is cut off."""

    start: float
    end: float
    share: Floats  # [devices], of the observed time in which each is available; NaN if it was not observed
    per_day: Floats  # [devices], sessions per observed day
    sessions: Floats  # seconds, of all devices
    outages: Floats  # seconds between two sessions, of all devices
    longest_outage: Floats  # [devices with two sessions], seconds
    by_hour: Floats  # [24], share of the observed time in which devices are available, by hour of the day
    at_start: float  # share of the devices that are available at the very beginning
    at_end: float  # and at the very end

    @property
    def short(self) -> float:
        """The share of sessions below a minute."""
        return float((self.sessions < SHORT).mean()) if self.sessions.size else 0.0


def log_statistics(log: Log, start: float, end: float, devices: int) -> LogStatistics:
    """`devices` may exceed those that the log names: the others were never available."""
    device, first, after, window = _between(log, start, end)
    seen_device, seen_first, seen_after = (
        (np.arange(devices), np.full(devices, start), np.full(devices, end))
        if log.observed is None
        else _between(log.observed, start, end)[:3]
    )
    observed = np.bincount(seen_device, seen_after - seen_first, minlength=devices)
    available = np.bincount(device, after - first, minlength=devices)
    count = np.bincount(device, minlength=devices)
    same = (device[1:] == device[:-1]) & (window[1:] == window[:-1])  # an outage that was observed
    gap = (first[1:] - after[:-1])[same]
    longest = np.zeros(devices)
    np.maximum.at(longest, device[1:][same], gap)
    with np.errstate(invalid="ignore", divide="ignore"):
        by_hour = _by_hour(first, after) / _by_hour(seen_first, seen_after)
    return LogStatistics(
        start,
        end,
        share=np.divide(available, observed, out=np.full(devices, np.nan), where=observed > 0),
        per_day=np.divide(count * DAY, observed, out=np.full(devices, np.nan), where=observed > 0),
        sessions=after - first,
        outages=gap,
        longest_outage=longest[np.bincount(device[1:][same], minlength=devices) > 0],
        by_hour=by_hour,
        at_start=float((first <= start).sum() / devices),
        at_end=float((after >= end).sum() / devices),
    )


def _between(log: Log, start: float, end: float) -> tuple[Integers, Floats, Floats, Integers]:
    """Device, start, end and observation of the intervals, cut to the time from `start` to `end`."""
    device = log.device
    window = device if log.window is None else log.window
    first, after = log.start.clip(start, end), log.end.clip(start, end)
    kept = after > first
    return device[kept], first[kept], after[kept], window[kept]


def _by_hour(first: Floats, after: Floats) -> Floats:
    """The seconds of the intervals in each hour of the day, counted from midnight of the log's clock."""
    return np.diff([_before(after, hour).sum() - _before(first, hour).sum() for hour in range(25)])


def _before(time: Floats, hour: int) -> Floats:
    """The seconds from time 0 on that lie in the first `hour` hours of a day."""
    days = np.floor(time / DAY)
    return np.asarray(days * hour * _HOUR + np.minimum(time - days * DAY, hour * _HOUR))
