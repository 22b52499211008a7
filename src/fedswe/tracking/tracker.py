"""What a tracker is: a frozen value with its parameters, which starts the record of one run.

The results of a run do not depend on its trackers. What fails in one is a warning, and the run goes on without it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, cast

from fedswe.errors import TrackerWarning, first_line, located, printable, require, warn
from fedswe.registry import instance

Status = Literal["finished", "stopped", "failed"]  # a stopped run can be resumed


class TrackedRun(Protocol):
    """The record of one run at a tracker. The run waits for every call."""

    def log(self, round: int, values: Mapping[str, float]) -> None:
        """The row of the history after so many rounds, without the column `round`.

        A resumed run gives all rounds again, from the first: some may not have arrived before it was killed.
        """

    def finish(self, status: Status) -> None:
        """The run has ended, or was stopped. A process that is killed does not call it."""


class Tracker(ABC):
    """Derive a frozen dataclass; its fields are parameters, given as `NAME:KEY=VALUE`."""

    title: ClassVar[str] = ""  # one line for `fedswe list`
    package: ClassVar[str] = ""  # the Python package that it needs
    extra: ClassVar[str] = ""  # of fedswe, that installs it
    needs_directory: ClassVar[bool] = False  # whether it can only track runs that are kept in a directory

    @abstractmethod
    def start(self, settings: Mapping[str, Any], directory: Path | None) -> TrackedRun:
        """Begin to track a run, or continue to: a resumed run has the same directory.

        `settings` are the keys of the configuration with their values, e.g. {"local.lr": 0.1}. `directory` is where a
        tracker may keep files of this run, such as the name of its record; None if the run is not kept.
        """

    def check(self) -> None:
        """Refuse, before the first round, what cannot work."""
        return


def tracker_named(text: str) -> Tracker:
    """A tracker from a name such as `tensorboard` or `./mine.py:Mine:key=value`."""
    return cast(Tracker, instance("tracker", text, "track"))


def check_trackers(track: Sequence[str], kept: bool = True) -> None:
    """Refuse unknown trackers and those that cannot be used here. `kept`: the run has a directory that stays."""
    for text in track:
        tracker = tracker_named(text)
        install = f"pip install 'fedswe[{tracker.extra}]'" if tracker.extra else f"pip install {tracker.package}"
        there = not tracker.package or find_spec(tracker.package) is not None
        require(there, f"track: {text} needs the package {tracker.package}: {install}")
        require(kept or not tracker.needs_directory, f"track: {text} writes into the directory of the run: give `out`")
        tracker.check()


class Tracking:
    """The trackers of one run."""

    def __init__(self, track: Sequence[str], settings: Mapping[str, Any], directory: Path | None) -> None:
        self._runs: dict[str, TrackedRun] = {}
        for name in track:
            with self._left_if_it_fails(name):
                self._runs[name] = tracker_named(name).start(settings, directory)

    def log(self, row: Mapping[str, float]) -> None:
        """A new row of the history."""
        values = {name: float(value) for name, value in row.items() if name != "round"}
        for name, run in list(self._runs.items()):
            with self._left_if_it_fails(name):
                run.log(int(row["round"]), values)

    def finish(self, status: Status) -> None:
        for name, run in list(self._runs.items()):
            with self._left_if_it_fails(name):
                run.finish(status)

    @contextmanager
    def _left_if_it_fails(self, name: str) -> Iterator[None]:
        try:
            yield
        except (Exception, SystemExit) as error:  # packages of others may also call sys.exit
            self._runs.pop(name, None)
            reason = printable(located(error) or first_line(error))
            reason = re.sub(r"://[^/\s@]*@", "://", reason)  # no password of an address: the line may be kept in a log
            warn(f"the tracker {name} failed ({reason}): the run goes on without it", TrackerWarning)
