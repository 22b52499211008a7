"""When clients are available in seconds: how long the session of each lasts, and when enough of them are there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fedswe.availability.intervals import Online, RoundTimes
from fedswe.availability.model import Estimated
from fedswe.availability.schedule import Bools, Floats, Integers, Schedule
from fedswe.errors import require

_MOST_SLOTS = 100_000  # of one round: beyond it, the settings are a mistake
_LOOK_AHEAD = 10_000  # slots without enough clients, after which there is no other round


def sessions_of(schedule: Schedule, slot_seconds: float) -> Sessions:
    """Those of a log; the rounds of any other schedule become slots of so many seconds."""
    record = schedule.record if isinstance(schedule, Estimated) else schedule
    if not isinstance(record, Online):
        return Slots(schedule, slot_seconds)
    wrong = f'availability.during = "{record.during}" is for rounds of one length'
    remedy = 'leave it out with clock.name = "seconds", where clients are available in their intervals'
    require(record.during == "start", f"{wrong}: {remedy}")
    return LogSessions(record)


class Slots:
    """A client that is available in a round of a schedule is available in the whole slot; neighbouring slots join.

    Times are seconds from the beginning of a run; a session contains its beginning and not its end.
    """

    devices: list[Any] | None = None  # of a log: the device of each client, None for one that was never online

    def __init__(self, schedule: Schedule, seconds: float) -> None:
        self.m, self._schedule, self._times = schedule.m, schedule, RoundTimes(0.0, seconds)
        # The end of the record, if it has one: no round is opened from then on.
        self.end = math.inf if schedule.rounds is None else self._times.begin(schedule.rounds)
        self._rows: dict[int, Bools] = {}  # from the present on: some schedules can only go forward fast

    def until(self, now: float, horizon: float, clients: Integers) -> Floats:
        """When each of the clients leaves that are available now; for others it is now.

        Infinite if nothing is known of its leaving until the horizon. A session that lasts to the end of the record is
        taken to go on.
        """
        slot = self.round_at(now)
        slots = (horizon - now) / self._times.length
        many = f"a round of {horizon - now:g} s has {slots:.3g} slots of {self._times.length:g} s, over {_MOST_SLOTS}"
        require(slots <= _MOST_SLOTS, f"{many}: raise clock.slot_seconds, or set clock.deadline")
        there = self._row(slot)[clients]
        found = np.where(there, math.inf, now)
        while there.any() and (begin := self._times.begin(slot + 1)) <= horizon:
            slot += 1
            stays = self._row(slot)[clients]
            found[there & ~stays] = begin
            there = there & stays
        return found

    def opening(self, now: float, clients: int) -> float:
        """The first time from now on at which so many clients are available; infinite if there is none."""
        if now >= self.end:
            return math.inf
        first = self.round_at(now)
        self._rows = {slot: row for slot, row in self._rows.items() if slot >= first}
        for slot in range(first, first + _LOOK_AHEAD):
            begin: float = self._times.begin(slot)
            if begin >= self.end:
                return math.inf
            if int(self._row(slot).sum()) >= clients:
                return max(now, begin)
            self._rows.pop(slot)
        return math.inf  # most likely all clients have left for good

    def round_at(self, now: float) -> int:
        """The round of the schedule whose probabilities hold now."""
        return int(self._times.ended_by(now))

    def _row(self, slot: int) -> Bools:
        if self._schedule.rounds is not None:
            slot = min(slot, self._schedule.rounds - 1)  # a session goes on at the end of the record
        if slot not in self._rows:
            self._rows[slot] = self._schedule.sample(slot)
        return self._rows[slot]


class LogSessions:
    """The intervals of the clients' devices as the log has them, from the first round to the last whole one.

    A repeated log is one lap after the other. Times of a lap are those of the log plus the beginning of the lap, in
    floating-point arithmetic as it is written here, so that a time that was given is found again.
    """

    def __init__(self, online: Online) -> None:
        log, times = online.log, online.times
        self.m, self._times, self._rounds, self._wrap = online.m, times, online.length, online.rounds is None
        self._lap = online.length * times.length
        self.end = math.inf if self._wrap else self._lap
        labels = np.array([*log.labels.tolist(), None], dtype=object)
        self.devices: list[Any] | None = labels[np.minimum(online.device, log.devices)].tolist()
        owner, *spans = log.of_clients(online.device)
        start, end = ((time - times.origin).clip(0, self._lap) for time in spans)
        kept = end > start
        self._owner, start, self._end = owner[kept], start[kept], end[kept]
        # Intervals by the rank of their start: clients lie one after the other on a line of whole numbers.
        rank = np.argsort(np.argsort(start, kind="stable"))
        self._starts = np.sort(start)
        self._line = self._owner * (len(rank) + 1) + rank
        # End of the interval with which a client begins the next lap: NaN without one, infinite if the interval fills
        # the lap or no lap follows.
        self._again = np.full(self.m, np.nan if self._wrap else np.inf)
        first = (start == 0) & self._wrap
        self._again[self._owner[first]] = np.where(self._end[first] >= self._lap, np.inf, self._end[first])
        # The number of clients that are available at each start: only there it grows.
        self._ends = np.sort(self._end)
        begun, ended = (np.searchsorted(times, self._starts, side="right") for times in (self._starts, self._ends))
        self._count = begun - ended

    def until(self, now: float, horizon: float, clients: Integers) -> Floats:
        base, following = self._laps(now)
        begun = _up_to(self._starts, base, now)
        last = np.searchsorted(self._line, clients * (len(self._starts) + 1) + begun) - 1
        inside = (last >= 0) & (self._owner[last] == clients)
        found = np.where(inside, base + self._end[last], now)
        again = following + self._again[clients]
        goes_on = inside & (self._end[last] >= self._lap) & ~np.isnan(again)
        return np.maximum(np.where(goes_on, again, found), now)

    def opening(self, now: float, clients: int) -> float:
        if now >= self.end:
            return math.inf
        base, following = self._laps(now)
        if clients <= _up_to(self._starts, base, now) - _up_to(self._ends, base, now):
            return now
        enough = self._starts[self._count >= clients]
        passed = _up_to(enough, base, now)
        if passed < len(enough):
            return base + float(enough[passed])
        return following + float(enough[0]) if self._wrap and len(enough) else math.inf

    def round_at(self, now: float) -> int:
        at = RoundTimes(0.0, self._times.length).ended_by(now - self._laps(now)[0])
        return min(int(at), self._rounds - 1)

    def _laps(self, now: float) -> tuple[float, float]:
        """The beginnings of the present lap and of the next one."""
        lap = int(RoundTimes(0.0, self._lap).ended_by(now)) if self._wrap else 0
        return lap * self._lap, (lap + 1) * self._lap


Sessions = Slots | LogSessions


def _up_to(times: Floats, base: float, now: float) -> int:
    """How many of the sorted times, counted from base, are now or before."""
    found = int(np.searchsorted(times, now - base, side="right"))
    while found < len(times) and base + times[found] <= now:  # differences are rounded, and this is what is meant
        found += 1
    while found and base + times[found - 1] > now:
        found -= 1
    return found
