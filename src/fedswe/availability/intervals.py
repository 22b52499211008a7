"""Clients that are available when devices of a log were online."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from fedswe.availability.model import Population, Recorded
from fedswe.availability.schedule import Bools, Floats, Integers, Schedule
from fedswe.core import keys
from fedswe.core.value import Natural, Positive
from fedswe.errors import FedsweError, printable, require, warn

if TYPE_CHECKING:
    from fedswe.availability.log import Log

During = Literal["start", "middle", "whole"]
DeviceOf = Literal["sample", "with_replacement", "first", "id"]


@dataclass(frozen=True)
class Intervals(Recorded):
    """A log of the times at which devices were online, with the columns client, start, end.

    Times are seconds or ISO 8601 timestamps, rows may be in any order, and an interval does not contain its end. Round
    t begins at start + t * round_seconds. Each client of the task is given a device of the log. In Python,
    Intervals.from_array takes a data frame, a dictionary of columns or rows.
    """

    file: str = ""  # path of the log: CSV with any separator, or Parquet
    round_seconds: Positive = 600.0  # length of a round in seconds
    start: float | str = ""  # when round 0 begins: seconds or a timestamp, as in the log; empty: the first start
    end: float | str = ""  # when the last round must have ended, likewise; empty: the last end in the log
    during: During = "start"  # available if online at the "start" or the "middle" of a round, or in the "whole" round
    wrap: bool = False  # repeat the log after its last whole round; else a run has at most that many rounds
    mapping: DeviceOf | list[str] = "sample"  # or "with_replacement", the "first", those by "id", or each client's id
    devices: Natural = 0  # size of the population, if the log omits devices that were never online; 0 = those it names
    observed_file: str = ""  # log of the times in which each device was observed; outside of them it is unavailable

    title: ClassVar[str] = "devices of a log of online intervals"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.file or self.digest, "availability.file is missing: give the path of a log with client,start,end")
        require(not (self.digest and (self.file or self.observed_file)), "with a digest, give no file")

    @classmethod
    def from_array(cls, log: Any, **keys: Any) -> Self:
        """From a data frame, a dictionary or a structured array with client, start and end, or rows of these three.

        `keys` are parameters such as round_seconds=600.
        """
        from fedswe.availability.log import log_of

        content = log_of(log, "the log of Intervals.from_array")
        return cls._holding(content.digest(), content, keys)

    def rounds(self) -> int | None:
        return None if self.wrap else self.window(self.log())[1]

    def schedule(self, who: Population, seed: int) -> Schedule:
        log = self.log()
        return self._checked(self._online(log, log, who.m, seed), log.name)

    def rows(self, m: int, seed: int) -> tuple[Bools, Bools | None]:
        """In which rounds of the log each client is available, and was observed; None if the log does not say it."""
        log = self.log()
        available = self._online(log, log, m, seed).rows()
        return available, None if log.observed is None else self._online(log.observed, log, m, seed).rows()

    def _online(self, part: Log, log: Log, m: int, seed: int) -> Online:
        """Part of a log in rounds: itself, or when its devices were observed."""
        origin, length = self.window(log)
        times = RoundTimes(origin, self.round_seconds)
        return Online(part, self._devices(log, m, seed), times, length, self.during, self.wrap)

    def log(self) -> Log:
        from fedswe.availability.log import read_log

        log: Log = self._content() if self.digest else read_log(self.file, self.observed_file)
        return log

    def window(self, log: Log) -> tuple[float, int]:
        """When round 0 begins in seconds, and the number of whole rounds until the end."""
        known = log.observed or log
        origin = self._time("start", self.start, log, float(known.start.min()))
        last = float(known.end.max())
        end = self._time("end", self.end, log, last)
        require(end <= last, f"availability.end is after the last end in {log.name}: leave it out")
        span, length = end - origin, self.round_seconds
        short = f"from availability.start to the end are {span:g} s, less than a round of {length:g} s"
        require(span >= length, f"{log.name}: {short}: lower availability.round_seconds")
        require(span / length < 1e9, f"{log.name} has over 1e9 rounds: raise availability.round_seconds")
        return origin, int(RoundTimes(origin, length).ended_by(end))

    def _time(self, key: str, given: float | str, log: Log, default: float) -> float:
        if given == "":
            return default
        with suppress(ValueError):
            if log.dated and isinstance(given, str):
                time = datetime.fromisoformat(given.strip())
                return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
            if not log.dated and not isinstance(given, str) and math.isfinite(given):
                return float(given)
        kind = "a timestamp such as 2026-01-31T18:00:00Z" if log.dated else "a number of seconds"
        raise FedsweError(f"availability.{key} must be {kind}, as the times in {log.name}, not {given!r}")

    def _devices(self, log: Log, m: int, seed: int) -> Integers:
        """The device of each client; numbers from log.devices on are devices that were never online."""
        ids = log.ids
        if isinstance(self.mapping, list) or (self.mapping == "id" and ids is None):
            return self._named(log, m)
        if self.mapping == "id" and ids is not None:
            lowest, highest = ids.min(), ids.max()
            different = f"{log.name} has ids from {lowest} to {highest}, the {m} clients have 0 to {m - 1}"
            require(lowest >= 0 and highest < m, f'availability.mapping = "id": {different}')
            device = np.full(m, log.devices)
            device[ids] = np.arange(log.devices)
            return device
        n = self.devices or log.devices
        require(n >= log.devices, f"availability.devices = {n}, but {log.name} names {log.devices} devices")
        several = self.mapping == "with_replacement"
        few = f"{log.name} has {n} devices for {m} clients"
        remedy = 'lower the number of clients, or set availability.mapping = "with_replacement"'
        require(n >= m or several, f"{few}: {remedy}")
        if self.mapping == "first":
            return np.arange(m)
        return keys.generator(seed, "devices").choice(n, m, replace=several)

    def _named(self, log: Log, m: int) -> Integers:
        """The devices of clients by their names: those of a list, or all in the order of the names."""
        device = {str(name): k for k, name in enumerate(log.labels.tolist())}
        names = self.mapping if isinstance(self.mapping, list) else sorted(device)
        differ = f"availability.mapping: {len(set(names))} devices for {m} clients"
        require(len(set(names)) == len(names) == m, f'{differ}: list the device of each, mapping = ["geneva", "bern"]')
        unknown = sorted(set(names) - device.keys())
        require(not unknown, f"availability.mapping: {log.name} has no device {', '.join(unknown)[:80]}")
        if names is not self.mapping:
            who = ", ".join(f"{i} is {name}" for i, name in enumerate(names[:20]))
            warn(printable(f"{log.name}: clients are numbered in the order of the names: {who}"))
        return np.array([device[name] for name in names])


@dataclass(frozen=True)
class RoundTimes:
    """Round t begins at origin + t * length, in floating-point arithmetic as it is written here.

    Rounds and times are numbers or arrays.
    """

    origin: float
    length: float

    def begin(self, t: Any) -> Any:
        return self.origin + t * self.length

    def first_from(self, time: Any) -> Any:
        """The first round that begins at this time or later."""
        t = np.ceil((time - self.origin) / self.length)
        t = t - (self.begin(t - 1) >= time)  # the quotient is rounded
        return t + (self.begin(t) < time)

    def ended_by(self, time: Any) -> Any:
        """The number of rounds that have ended at this time."""
        t = self.first_from(time)
        return t - (self.begin(t) > time)


class Online:
    """The rounds of a log in which the devices of the clients are online."""

    def __init__(self, log: Log, device: Integers, times: RoundTimes, length: int, during: During, wrap: bool) -> None:
        self.m, self.length, self.rounds = len(device), length, None if wrap else length
        self.log, self.device, self.times, self.during = log, device, times, during
        client, start, end = log.of_clients(device)
        began = (RoundTimes(times.origin + times.length / 2, times.length) if during == "middle" else times).first_from
        ended = times.ended_by if during == "whole" else began
        first, after = began(start).clip(0, length), ended(end).clip(0, length)
        kept = after > first
        client, first, after = client[kept], first[kept].astype(np.int64), after[kept].astype(np.int64)
        # Intervals that are apart in the log may touch in rounds.
        apart = (client[1:] != client[:-1]) | (first[1:] != after[:-1])
        begins, ends = np.append(True, apart)[: len(client)], np.append(apart, True)[: len(client)]
        client, first, after = client[begins], first[begins], after[ends]
        # Clients one after the other on a line, length + 1 places each: where each run begins and ends, between an
        # empty run before all others and one after them; and the rounds in runs before each.
        self._home, far = np.arange(self.m) * (length + 1), self.m * (length + 1)
        self._begins = np.concatenate([[-1], self._home[client] + first, [far]])
        self._ends = np.concatenate([[-1], self._home[client] + after, [far]])
        self._total = np.concatenate([[0, 0], np.cumsum(after - first)])
        # The last run found for each client: where it begins and ends, and where the next one begins.
        self._found = np.full((3, self.m), -1)

    def prob(self, t: int) -> Floats:
        return np.full(self.m, np.nan)

    def sample(self, t: int) -> Bools:
        place, found = self._home + t % self.length, self._found.copy()
        # From one round to the next few clients change, and a search costs far more than a look.
        other = np.flatnonzero((found[0] > place) | (found[2] <= place))
        last = np.searchsorted(self._begins, place[other], side="right") - 1  # the last run that begins there or before
        found[:, other] = self._begins[last], self._ends[last], self._begins[last + 1]
        self._found = found
        return np.asarray(found[1] > place)

    def available_rounds(self, first: int, after: int) -> Floats:
        """In how many of the rounds `first` to `after` - 1 of the log each client is available."""
        return np.asarray(self._before(after) - self._before(first), dtype=np.float64)

    def rows(self) -> Bools:
        """[length, m], all rounds of the log."""
        line = np.zeros(self.m * (self.length + 1) + 1, dtype=np.int8)
        line[self._begins[1:-1]] += 1
        line[self._ends[1:-1]] -= 1
        return np.cumsum(line[:-1], dtype=np.int8).astype(bool).reshape(self.m, -1)[:, :-1].T

    def _before(self, t: int) -> Integers:
        """How many rounds of the runs of all clients up to each come before its round t."""
        place = self._home + t
        last = np.searchsorted(self._begins, place, side="right") - 1
        return np.asarray(self._total[last + 1] - np.maximum(self._ends[last] - place, 0))
