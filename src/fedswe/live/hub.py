"""The one task that reads the directories, for all open pages.

Pages are not queued for: each remembers what it has seen (a version of the list, a position in every curve) and takes
what is new. So a page that is slow, or asleep, costs nothing.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedswe.errors import first_line, printable, warn
from fedswe.live.curve import Curve
from fedswe.live.found import Found, find
from fedswe.live.grid_item import grid_payload
from fedswe.live.plain_files import unreadable
from fedswe.live.run_item import RunItem
from fedswe.live.strip import RecordedStrip
from fedswe.results.held_files import held_files
from fedswe.results.reported import FILE as REPORTED

NOTHING = -1  # the version of a page that has been sent nothing

_PAUSE = 1.0  # seconds between two looks
_SHARE = 5.0  # a look is followed by a pause of at least so many times its own length
_SEARCH = 2.0  # seconds between two searches for new directories
_NEW_RUNS = 200  # that are read in one look
_FOLLOWED = 64  # curves at most


class Hub:
    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = list(roots)
        self._found, self._searched = Found(), float("-inf")
        self._runs: dict[str, RunItem] = {}
        self._texts: dict[str, tuple[int, str]] = {}  # id -> version and JSON of each thing in the list
        self._gone: dict[str, int] = {}  # id -> version in which it left the list
        self._version = 0
        self._wanted: Counter[str] = Counter()  # id -> pages that show its curve
        self.curves: dict[str, Curve] = {}
        self.strips: dict[str, RecordedStrip] = {}
        self.not_followed: frozenset[str] = frozenset()  # ids that pages show, beyond the limit
        self._problems: dict[str, str] = {}  # id -> why its curve or strip cannot be read
        self._tick = asyncio.Event()
        self.closed = False

    async def run(self) -> None:
        """Look again and again, until it is closed."""
        while not self.closed:
            began = time.monotonic()
            try:
                self.look()
            except Exception as error:  # a defect: the next look may succeed
                warn(f"the page is not complete: {printable(first_line(error))}")
            self._wake()
            await asyncio.sleep(max(_PAUSE, _SHARE * (time.monotonic() - began)))

    def close(self) -> None:
        """Send the last news, and end all streams."""
        if not self.closed:
            self.closed = True
            self._searched = float("-inf")
            try:
                self.look()
            finally:
                self._wake()

    def _wake(self) -> None:
        self._tick.set()
        self._tick = asyncio.Event()

    async def changed(self) -> None:
        """Wait for the next look."""
        await self._tick.wait()

    # what pages ask ----------------------------------------------------------------------------------------
    @contextmanager
    def following(self, ids: Sequence[str]) -> Iterator[None]:
        """Read the curves of these runs as long as some page shows them."""
        self._wanted.update(ids)
        self._follow()  # at once: a page shall not wait for the next look
        try:
            yield
        finally:
            self._wanted.subtract(ids)
            self._wanted += Counter()  # without those that no page shows

    def since(self, version: int) -> tuple[int, str]:
        """The present version of the list, and as JSON what has changed in it; empty if nothing has."""
        if version == self._version:
            return version, ""
        items = ",".join(text for changed, text in self._texts.values() if changed > version)
        gone = json.dumps([id_ for id_, left in self._gone.items() if left > version])
        rest = json.dumps({"left_out": self._found.left_out, "all": version == NOTHING})
        return self._version, f'{{"items":[{items}],"gone":{gone},{rest[1:]}'

    # a look at the directories -----------------------------------------------------------------------------
    def look(self) -> None:
        if time.monotonic() - self._searched >= _SEARCH:
            self._searched = time.monotonic()
            self._found = find(self._roots)
            self._take_over()
        held = held_files()
        for run in self._runs.values():
            run.look(held)
        self._runs = {id_: run for id_, run in self._runs.items() if not run.gone}
        self._follow()
        self._publish()

    def _take_over(self) -> None:
        """Begin with what is new, and forget what has gone."""
        found = self._found
        self._runs = {id_: run for id_, run in self._runs.items() if found.runs.get(id_) == run.place}
        new = [id_ for id_ in found.runs if id_ not in self._runs]
        self._runs |= {id_: RunItem(id_, found.runs[id_]) for id_ in new[:_NEW_RUNS]}

    def _follow(self) -> None:
        wanted = [id_ for id_ in self._wanted if id_ in self._runs]
        wanted, self.not_followed = wanted[:_FOLLOWED], frozenset(wanted[_FOLLOWED:])
        self.curves = {id_: self.curves.get(id_) or Curve(self._runs[id_].place.history) for id_ in wanted}
        recorded = {id_: self._runs[id_].place for id_ in wanted if not self._runs[id_].place.stored}
        self.strips = {
            id_: self.strips.get(id_) or RecordedStrip(place.path / REPORTED) for id_, place in recorded.items()
        }
        self._problems = {}
        readers: list[tuple[str, Curve | RecordedStrip]] = [*self.curves.items(), *self.strips.items()]
        for id_, followed in readers:
            try:
                followed.look()
            except Exception as error:  # as for items
                self._problems[id_] = unreadable(error)

    def _publish(self) -> None:
        payloads: dict[str, dict[str, Any]] = {}
        cells: dict[str, dict[str, RunItem]] = {id_: {} for id_ in self._found.grids}
        for run in self._runs.values():
            payloads[run.id] = run.payload()
            if run.place.grid in cells:
                known = cells[run.place.grid].get(run.place.name)
                if known is None or known.state != "finished":  # a result counts more than what is left of its run
                    cells[run.place.grid][run.place.name] = run
        for id_, place in self._found.grids.items():
            payloads[id_] = grid_payload(id_, place, cells[id_])
        for id_, problem in self._problems.items():
            payloads[id_].setdefault("problem", problem)
        version = self._version + 1
        gone = [id_ for id_ in self._texts if id_ not in payloads]
        for id_, payload in payloads.items():
            text = json.dumps(payload, allow_nan=False)
            if id_ not in self._texts or self._texts[id_][1] != text:
                self._texts[id_], self._version = (version, text), version
                self._gone.pop(id_, None)
        for id_ in gone:
            del self._texts[id_]
            self._gone[id_], self._version = version, version
