"""Rounds that last until enough reports have arrived or a deadline has passed: who drops out when, and what is lost."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from fedswe.availability.schedule import Bools, Floats, Integers, Schedule
from fedswe.availability.sessions import Sessions, sessions_of
from fedswe.clock.model import Clock, Timeline, Work
from fedswe.clock.speeds import Speeds
from fedswe.core.value import Natural, NonNegative, Positive
from fedswe.errors import require

Sigma = Annotated[float, Field(ge=0, le=10)]


@dataclass(frozen=True)
class Seconds(Clock):
    """Simulated time: clients download, train and upload at their own speed, and may leave before they are done.

    A round is opened when enough clients are available, and closed when enough reports have arrived, when every
    selected client has reported or left, or at its deadline. A client that leaves before its upload is complete has
    dropped out; one that is still at work when the round is closed is late. Both lose their work and stay as they were.
    """

    deadline: NonNegative = 0.0  # seconds from opening a round to closing it; 0 = none
    min_clients: Natural = 1  # available clients that a round needs to open
    min_reports: NonNegative = 0.0  # reports with which a round closes; below 1: share of the selected; 0 = all of them
    early: bool = True  # a round may close before its deadline; false: every round lasts until its deadline
    pause: NonNegative = 0.0  # seconds from closing a round to opening the next
    limit: NonNegative = 0.0  # seconds after which no round is opened; 0 = none
    slot_seconds: Positive = 600.0  # length of a round of the availability model, if that has no seconds of its own
    step_seconds: NonNegative = 1.0  # seconds of one local step: the median over clients
    step_sigma: Sigma = 0.0  # its spread over clients, log-normal: sigma of the logarithm; 0 = all clients alike
    download: NonNegative = 1e6  # bytes per second to a client: the median; 0 = no time
    upload: NonNegative = 1e6  # bytes per second from a client, likewise
    network_sigma: Sigma = 0.0  # spread of both over clients, one log-normal factor for each client
    speed_file: str = ""  # CSV with client or device, and columns of these names, which replace the three values

    title: ClassVar[str] = "simulated seconds: rounds with deadlines, clients with speeds, work that is lost"
    may_end_early: ClassVar[bool] = True

    def __post_init__(self) -> None:
        legal = self.min_reports < 1 or self.min_reports.is_integer()
        require(legal, f"min_reports must be a whole number, or a share below 1, not {self.min_reports:g}")
        require(self.early or self.deadline, "early = false needs a deadline: give the length of a round")
        alone = self.early or not self.min_reports
        require(alone, "early = false: a round lasts until its deadline: leave out min_reports")
        passes: object = self.pause or not self.early
        require(self.min_clients or passes, "min_clients = 0 needs a pause: a round without clients takes no time")
        passes = passes or self.speed_file or self.step_seconds or self.download or self.upload
        require(passes, "rounds would take no time: give step_seconds, download, upload or a pause")

    def timeline(self, schedule: Schedule, work: Callable[[], Work], seed: int) -> Timeline:
        m = schedule.m
        require(self.min_clients <= m, f"clock.min_clients = {self.min_clients}, but there are {m} clients: lower it")
        sessions = sessions_of(schedule, self.slot_seconds)
        step = (self.step_seconds, self.step_sigma)
        speeds = Speeds.drawn(m, seed, step, self.download, self.upload, self.network_sigma)
        if self.speed_file:
            speeds = speeds.with_file(self.speed_file, sessions.devices)
        return Timed(sessions, schedule, speeds, work(), self)

    def needed(self, selected: int) -> int:
        """With how many reports a round of so many selected clients is closed."""
        share = 0 < self.min_reports < 1
        # 0.07 * 100 is a little above 7 in binary.
        wanted = math.ceil(self.min_reports * selected - 1e-9) if share else int(self.min_reports) or selected
        return min(wanted, selected)

    def closing(self, opened: float, arrivals: Floats, ends: Floats) -> float:
        """When a round is closed: `arrivals` of reports, `ends` when each selected client has reported or left."""
        deadline = opened + self.deadline if self.deadline else math.inf
        if not self.early:
            return deadline
        needed = self.needed(len(ends))
        enough = float(np.sort(arrivals)[needed - 1]) if 0 < needed <= len(arrivals) else math.inf
        return min(deadline, enough, float(ends.max(initial=opened)))


_LONGEST = 1e9  # seconds that a round may take: about 30 years

# Columns of the history, since the beginning of the run. Every selected client reported, dropped out or was late.
COLUMNS = (
    "simulated_seconds",  # when the last round was closed
    "total_selected",
    "total_reported",
    "total_dropped_before",  # left before the download was complete
    "total_dropped_during",  # left during local training
    "total_dropped_after",  # left before the upload was complete
    "total_late",  # still at work when the round was closed
    "work_seconds",  # of all selected clients, from opening the round until they reported, left or were late
    "wasted_seconds",  # of that, those of clients that did not report
    "bytes_sent",  # to clients and by clients, also in vain
)


class Timed(Timeline):
    """One run in simulated seconds; time 0 is the beginning of round 0 of the availability."""

    def __init__(self, sessions: Sessions, schedule: Schedule, speeds: Speeds, work: Work, rules: Seconds) -> None:
        self._sessions, self._schedule, self._speeds, self._work, self._rules = sessions, schedule, speeds, work, rules
        self._everybody = np.arange(sessions.m)
        self._totals = dict.fromkeys(COLUMNS, 0.0)
        with np.errstate(over="ignore"):
            slowest = float(self._phases(0.0, self._everybody, np.ones(sessions.m, dtype=bool))[-1].max(initial=0.0))
        long = f"a client would need {slowest:.3g} s for one round, over {_LONGEST:g}"
        remedy = "check clock.step_seconds, clock.download and clock.upload, or clock.speed_file"
        require(slowest <= _LONGEST, f"{long}: {remedy}")
        # Whether sessions can be looked at for so long, asked once before the first round.
        sessions.until(0.0, min(slowest, rules.deadline or slowest), self._everybody[:0])
        self._open(0.0)
        require(not self.over, f"no round can be opened: {self.over}")

    def available(self, t: int) -> Bools:
        return np.asarray(self._sessions.until(self._opened, self._opened, self._everybody) > self._opened)

    def prob(self, t: int) -> Floats:
        return self._schedule.prob(self._sessions.round_at(self._opened))

    def reporting(self, t: int, selected: Integers, replied: Bools) -> Integers:
        opened = self._opened
        received, loaded, trained, arrival = self._phases(opened, selected, replied)
        horizon = opened + self._rules.deadline if self._rules.deadline else float(arrival.max(initial=opened))
        left = self._sessions.until(opened, horizon, selected)
        stays = arrival <= left  # a session does not contain its end, and an upload does not need it
        closed = self._rules.closing(opened, arrival[stays], np.where(stays, arrival, left))
        reported = stays & (arrival <= closed)
        dropped = ~stays & (left <= closed)
        stopped = np.where(reported, arrival, np.where(dropped, left, closed))
        busy = stopped - opened
        sent = received * _done(opened, loaded, stopped) + self._work.up * _done(trained, arrival, stopped)
        found = {
            "total_selected": len(selected),
            "total_reported": reported.sum(),
            "total_dropped_before": (dropped & (left < loaded)).sum(),
            "total_dropped_during": (dropped & (left >= loaded) & (left < trained)).sum(),
            "total_dropped_after": (dropped & (left >= trained)).sum(),
            "total_late": (~reported & ~dropped).sum(),
            "work_seconds": busy.sum(),
            "wasted_seconds": busy[~reported].sum(),
            "bytes_sent": np.rint(sent).sum(),
        }
        self._totals |= {name: self._totals[name] + float(found[name]) for name in found}
        self._totals["simulated_seconds"] = closed
        return selected[reported]

    def advance(self) -> None:
        self._open(self._totals["simulated_seconds"] + self._rules.pause)

    def _phases(self, opened: float, clients: Integers, replied: Bools) -> tuple[Floats, Floats, Floats, Floats]:
        """The bytes that each client downloads, and when it has them, has trained, and its report arrives."""
        work, speeds = self._work, self._speeds
        received = work.down + np.where(replied[clients], float(work.reply), 0.0)
        loaded = opened + _seconds(received, speeds.download[clients])
        trained = loaded + (work.steps * speeds.step_seconds)[clients]
        return received, loaded, trained, trained + _seconds(work.up, speeds.upload[clients])

    def _open(self, now: float) -> None:
        """Wait until the next round can be opened, or find that there is none."""
        rules, end = self._rules, self._sessions.end
        self._opened = self._sessions.opening(now, rules.min_clients)
        self.over = self.shortened = ""
        if math.isinf(self._opened) and not 0 < rules.limit <= min(end, now):
            few = f"from second {now:.10g} on, fewer than clock.min_clients = {rules.min_clients} clients are available"
            ends = f"the availability is known until second {end:.10g} (availability.wrap=true repeats a log)"
            self.over = self.shortened = few if now < end else ends
        elif rules.limit and self._opened >= rules.limit:
            self.over = f"clock.limit = {rules.limit:g} s has passed"

    def columns(self) -> dict[str, float]:
        return dict(self._totals)

    def state(self) -> Floats:
        return np.array(list(self._totals.values()))

    def load(self, state: Floats, t: int) -> None:
        self._totals = dict(zip(COLUMNS, map(float, state), strict=True))
        if t:
            self.advance()


def _seconds(size: npt.ArrayLike, speed: Floats) -> Floats:
    """How long so many bytes take; no time where the speed is 0, which stands for no limit."""
    return np.asarray(np.divide(size, speed, out=np.zeros(len(speed)), where=speed > 0))


def _done(begin: Floats | float, end: Floats, stopped: Floats) -> Floats:
    """The share of a transfer that was done when it stopped."""
    length = end - begin
    share = np.divide(stopped - begin, length, out=np.where(stopped >= end, 1.0, 0.0), where=length > 0)
    return np.asarray(np.clip(share, 0.0, 1.0))
