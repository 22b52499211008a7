"""The history of a run: the models that evaluate.model names, when Evaluate.due says so, as in a simulated run.

Every row is a line of the ledger. history.csv is written from them, and rebuilt if it is lost or damaged.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable

import numpy as np

from fedswe.deploy.ledger_lines import Entry, Evaluation
from fedswe.deploy.server import ServerEndpoint
from fedswe.engine.base import Attendance
from fedswe.results.files import write_whole
from fedswe.results.history import History, Row, Tally

HISTORY = "history.csv"


class Evaluator:
    def __init__(self, server: ServerEndpoint) -> None:
        self._server, self._path = server, server.directory / HISTORY
        rows = server.rows
        self.history = History(list(rows))
        evaluated = int(rows[-1]["round"]) if rows else -1
        self._began = time.monotonic() - (rows[-1]["seconds"] if rows else 0.0)
        self._tally = tally(server.unevaluated)
        if evaluated < server.t and self._due():  # at the start, or after a crash between commit and evaluation
            self._evaluate()
        elif rows:
            self._write()

    def after_round(self) -> None:
        assert self._server.committed is not None
        self._tally = self._tally.with_round(attendance(self._server.committed))
        if self._due():
            self._evaluate()

    def _due(self) -> bool:
        experiment = self._server.deployment.experiment
        return experiment.evaluate.due(self._server.t, experiment.rounds)

    def _evaluate(self) -> None:
        row: Row = {"round": self._server.t, **self._tally.columns()}
        self._tally = Tally()
        row |= self._server.scores()
        row["seconds"] = round(time.monotonic() - self._began, 3)
        self._server.record(Evaluation(row))
        self.history.rows.append(row)
        self._write()

    def _write(self) -> None:
        self.history = history(self.history.rows)
        write_whole(self._path, self.history.to_csv())


def history(rows: list[Row]) -> History:
    """The rows with the columns of the last: the configuration or the version may have changed between two starts."""
    return History([{name: old.get(name, math.nan) for name in rows[-1]} for old in rows])


def tally(entries: Iterable[Entry]) -> Tally:
    """Availability and echoes of rounds since the last evaluation."""
    found = Tally()
    for entry in entries:
        found = found.with_round(attendance(entry))
    return found


def attendance(entry: Entry) -> Attendance:
    echoes = np.array([entry.t - since for since in entry.merged.values()], dtype=int)
    return Attendance(entry.available, len(entry.merged), echoes)
