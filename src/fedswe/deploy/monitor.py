"""What a server is doing, for `fedswe deploy status`, the metrics and the health check.

It is in control/progress, which is written without care: it says nothing when the server has ended, and a run does not
depend on it.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from contextlib import suppress
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from fedswe.deploy.deployment import Deployment
from fedswe.deploy.ledger import Contents
from fedswe.deploy.ledger_lines import Entry
from fedswe.deploy.requests import FOLDER
from fedswe.deploy.totals import Totals
from fedswe.results.history import Row

_PROGRESS = f"{FOLDER}/progress"
_WRITE_EVERY = 5.0  # seconds between two writes of the same activity
_LARGEST = 100_000  # bytes of control/progress
_SLACK = 60.0  # seconds of a round besides its deadlines: merging, writing, evaluating

Doing = Literal["starting", "waiting for clients", "gathering reports", "delivering", "paused", "finished", "stopped"]


@dataclass(frozen=True)
class Activity:
    """What the server does now."""

    doing: Doing = "starting"
    round: int = 0
    connected: tuple[int, ...] = ()  # members that are connected
    needed: int = 0  # connected clients that a round needs
    silent: tuple[int, ...] = ()  # connected, and without an answer in their last rounds
    time: float = 0.0  # of this line, in seconds since 1970


@dataclass(frozen=True)
class Health:
    ok: bool
    reason: str


class Monitor:
    """The state of a running server. One thread updates it by assigning whole values, others read them."""

    def __init__(self, directory: Path, deployment: Deployment, contents: Contents) -> None:
        self.directory = directory
        self.totals = Totals.of(contents.entries)
        self.scores = _latest(contents.rows)
        self.activity = Activity()
        self.m = self.evicted = 0
        self.bound = longest_round(deployment.deadline)
        self._began = self._written = time.monotonic()  # of the last commit, start or resume

    @property
    def age(self) -> float:
        """Seconds since the last commit, start or resume."""
        return time.monotonic() - self._began

    def committed(self, entry: Entry, rows: list[Row]) -> None:
        totals = deepcopy(self.totals)  # another thread may read them
        totals.add(entry)
        self.totals, self.scores, self._began = totals, _latest(rows), time.monotonic()

    def now(self, activity: Activity) -> None:
        """Say what the server does; often called."""
        if "paused" in (self.activity.doing, activity.doing):
            self._began = time.monotonic()
        same = replace(activity, time=self.activity.time) == self.activity
        if same and time.monotonic() - self._written < _WRITE_EVERY:
            return
        self.activity, self._written = replace(activity, time=round(time.time(), 3)), time.monotonic()
        path = self.directory / _PROGRESS
        with suppress(OSError):
            path.parent.mkdir(mode=0o700, exist_ok=True)
            aside = path.with_name(".progress.part")
            aside.write_text(json.dumps(asdict(self.activity)) + "\n")
            os.replace(aside, path)

    def health(self) -> Health:
        activity = self.activity
        if activity.doing in ("paused", "finished", "stopped"):
            return Health(True, activity.doing)
        if not (late := no_progress(self.age, self.bound)):
            return Health(True, activity.doing)
        if activity.doing == "waiting for clients":
            late += f": {len(activity.connected)} clients are connected, a round needs {activity.needed}"
        return Health(False, late)

    def disk_free(self) -> int:
        """Bytes that are free where the run is stored."""
        return shutil.disk_usage(self.directory).free


def longest_round(deadline: float) -> float:
    """Seconds that a round can take: until its reports and its deliveries are there, and some for the rest."""
    return 2 * deadline + _SLACK


def no_progress(age: float, bound: float) -> str:
    """What is wrong if the last commit, start or resume was `age` seconds ago; empty if nothing."""
    return f"no round was committed for {age:.0f} s, the bound is {bound:.0f} s" if age > bound else ""


def _latest(rows: list[Row]) -> Row:
    return dict(rows[-1]) if rows else {}


def read_activity(directory: Path) -> Activity | None:
    """What the server of a run last said; None if that cannot be read."""
    try:
        with open(directory / _PROGRESS, "rb") as file:
            table = json.loads(file.read(_LARGEST))
        found = Activity(**{**table, "connected": tuple(table["connected"]), "silent": tuple(table["silent"])})
        numbers = (found.round, found.needed, *found.connected, *found.silent)
        valid = found.doing in get_args(Doing) and type(found.time) in (int, float)
        return found if valid and all(type(number) is int for number in numbers) else None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
