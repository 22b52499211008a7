"""The trackers of one run, each in a thread of its own: one that fails or hangs does not delay the run."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from fedswe.errors import TrackerWarning, first_line, located, printable, warn
from fedswe.tracking.tracker import Status, Tracker, tracker_named

_WAITING = 1000  # rows that may wait for a tracker; later ones are lost
_PATIENCE = 30.0  # seconds that the end of a run waits for its trackers


Say = Callable[[str], None]
_Item = tuple[int, dict[str, float]] | Status  # a row, or the end


def _warn(message: str) -> None:
    warn(message, TrackerWarning)


class Tracking:
    """The trackers of one run. The results of the run do not depend on them."""

    def __init__(
        self,
        track: Sequence[str],
        settings: Mapping[str, Any],
        directory: Path | None,
        *,
        earlier: Sequence[Mapping[str, float]] = (),
        say: Say = _warn,
        waiting: int = _WAITING,
        patience: float = _PATIENCE,
    ) -> None:
        """`earlier` rows of the history may not have reached the trackers before the process was killed that had them.

        `say` is called with one line when a tracker fails, by the thread that calls the methods of this object.
        """
        self._patience = patience
        rows = [_item(row) for row in earlier]
        self._threads = [_TrackerThread(text, tracker_named(text), say, rows, waiting) for text in track]
        for thread in self._threads:
            thread.start(settings, directory)

    def log(self, row: Mapping[str, float]) -> None:
        """A new row of the history."""
        item = _item(row)
        for thread in self._threads:
            thread.send(item)

    def finish(self, status: Status) -> None:
        """The run has ended. Call `wait` before the process ends."""
        for thread in self._threads:
            thread.send(status)

    @staticmethod
    def wait(several: Sequence[Tracking]) -> None:
        """Wait until the trackers of these runs have everything, but for all of them not longer than for one."""
        began = time.monotonic()
        for tracking in several:
            for thread in tracking._threads:
                thread.join(max(0.0, began + tracking._patience - time.monotonic()), tracking._patience)


def _item(row: Mapping[str, float]) -> _Item:
    return int(row["round"]), {name: float(value) for name, value in row.items() if name != "round"}


class _TrackerThread:
    def __init__(self, name: str, tracker: Tracker, say: Say, earlier: Sequence[_Item], waiting: int) -> None:
        self._name, self._tracker, self._say = name, tracker, say
        self._failure, self._full = "", False
        self._most = waiting + len(earlier)
        self._queue: SimpleQueue[_Item] = SimpleQueue()
        for item in earlier:
            self._queue.put(item)

    def start(self, settings: Mapping[str, Any], directory: Path | None) -> None:
        # A daemon: the process may end while the tracker hangs.
        self._thread = threading.Thread(target=self._work, args=(settings, directory), daemon=True)
        self._thread.start()

    def send(self, item: _Item) -> None:
        self._say_failure()
        if isinstance(item, str) or self._queue.qsize() < self._most:  # the end is never lost
            self._queue.put(item)
        elif not self._full and self._thread.is_alive():
            self._full = True
            self._say(f"the tracker {self._name} does not keep up and loses rows: the run goes on")

    def join(self, seconds: float, patience: float) -> None:
        self._thread.join(seconds)
        self._say_failure()
        if self._thread.is_alive():
            self._say(f"the tracker {self._name} has not ended within {patience:g} s: what it has not sent is lost")

    def _say_failure(self) -> None:
        if self._failure:
            failure, self._failure = self._failure, ""
            self._say(f"the tracker {self._name} failed ({failure}): the run goes on")

    def _work(self, settings: Mapping[str, Any], directory: Path | None) -> None:
        try:
            run = self._tracker.start(settings, directory)
        except BaseException as error:  # packages of others may also call sys.exit
            self._failure = _in_one_line(error)
            return
        failed = False
        while True:
            item = self._queue.get()
            try:
                if isinstance(item, str):
                    run.finish(item)
                else:
                    run.log(*item)
            except BaseException as error:  # the next row may succeed
                if not failed:
                    self._failure, failed = _in_one_line(error), True
            if isinstance(item, str):
                return


def _in_one_line(error: BaseException) -> str:
    """Without the password of an address: the line may be kept in a log."""
    return re.sub(r"://[^/\s@]*@", "://", printable(located(error) or first_line(error)))
