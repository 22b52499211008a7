"""Rounds that last until enough reports have arrived or a deadline has passed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from fedswe.availability.schedule import Schedule
from fedswe.availability.sessions import sessions_of
from fedswe.clock.model import Clock, Timeline, Work
from fedswe.clock.speeds import Speeds
from fedswe.clock.timed import Rules, Timed
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
        require(
            self.min_reports < 1 or float(self.min_reports).is_integer(),
            f"min_reports must be a whole number, or a share below 1, not {self.min_reports:g}",
        )
        require(self.early or self.deadline, "early = false needs a deadline: give the length of a round")
        require(
            self.early or not self.min_reports, "early = false: a round lasts until its deadline: leave out min_reports"
        )
        passes = self.pause or not self.early
        require(self.min_clients or passes, "min_clients = 0 needs a pause: a round without clients takes no time")
        require(
            passes or self.speed_file or self.step_seconds or self.download or self.upload,
            "rounds would take no time: give step_seconds, download, upload or a pause",
        )

    def timeline(self, schedule: Schedule, work: Callable[[], Work], seed: int) -> Timeline:
        m = schedule.m
        require(self.min_clients <= m, f"clock.min_clients = {self.min_clients}, but there are {m} clients: lower it")
        sessions = sessions_of(schedule, self.slot_seconds)
        step = (self.step_seconds, self.step_sigma)
        speeds = Speeds.drawn(m, seed, step, self.download, self.upload, self.network_sigma)
        if self.speed_file:
            speeds = speeds.with_file(self.speed_file, sessions.devices)
        rules = Rules(self.deadline, self.min_clients, self.min_reports, self.early, self.pause, self.limit)
        return Timed(sessions, schedule, speeds, work(), rules)
