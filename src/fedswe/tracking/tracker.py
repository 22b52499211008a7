"""What a tracker is: a frozen value with its parameters, which starts the record of one run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, cast

from fedswe import short_forms
from fedswe.errors import require

Status = Literal["finished", "stopped", "failed"]  # a stopped run can be resumed


class TrackedRun(Protocol):
    """The record of one run at a tracker. All calls come from one thread, which is not that of the run."""

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
    return cast(Tracker, short_forms.instance("tracker", text, "track"))


def check_trackers(track: Sequence[str], kept: bool = True) -> None:
    """Refuse unknown trackers and those that cannot be used here. `kept`: the run has a directory that stays."""
    for text in track:
        tracker = tracker_named(text)
        install = f"pip install 'fedswe[{tracker.extra}]'" if tracker.extra else f"pip install {tracker.package}"
        there = not tracker.package or find_spec(tracker.package) is not None
        require(there, f"track: {text} needs the package {tracker.package}: {install}")
        require(kept or not tracker.needs_directory, f"track: {text} writes into the directory of the run: give `out`")
        tracker.check()
