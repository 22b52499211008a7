"""What the server says of its models while a run goes on: history.csv, as a simulated run has it."""

from __future__ import annotations

import time
from pathlib import Path

from fedswe.deploy.server import ServerEndpoint
from fedswe.results.files import write_whole
from fedswe.results.history import History, Row

FILE = "history.csv"


class Evaluation:
    def __init__(self, directory: Path, server: ServerEndpoint) -> None:
        self._path, self._server = directory / FILE, server
        self._history = History.from_csv(self._path.read_text()) if self._path.is_file() else History()
        known = self._history.rows
        known[:] = [row for row in known if row["round"] <= server.t]  # a restored backup may be older
        self._began = time.monotonic() - (known[-1]["seconds"] if known else 0.0)
        if not known or (server.finished and known[-1]["round"] < server.t):
            self._evaluate()

    def after_round(self) -> None:
        every = self._server.deployment.experiment.evaluate.every
        if self._server.t % every == 0 or self._server.finished:
            self._evaluate()

    def _evaluate(self) -> None:
        row: Row = {"round": self._server.t}
        for name, x in self._server.models().items():
            row |= {f"{name}_{score}": value for score, value in self._server.problem.evaluate(x).items()}
        row["seconds"] = round(time.monotonic() - self._began, 3)
        self._history.append(row)
        write_whole(self._path, self._history.to_csv())
