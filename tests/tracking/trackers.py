"""Trackers of tests: one that writes lines, and others that fail."""

from dataclasses import dataclass

from fedswe.engine.columns import Column
from fedswe.tracking import Tracker

HERE = "not a class"


@dataclass(frozen=True)
class Lines(Tracker):
    file: str = "tracked.txt"

    def start(self, settings, directory):
        return _Lines(directory / self.file, settings)


class _Lines:
    def __init__(self, path, settings):
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._append(f"start {settings['rounds']}")

    def _append(self, line):
        with self._path.open("a") as file:
            file.write(line + "\n")

    def log(self, round, values):
        self._append(f"{round} {' '.join(values)}")

    def finish(self, status):
        self._append(status)


@dataclass(frozen=True)
class Failing(Tracker):
    at: str = "start"  # or a round, or finish

    def start(self, settings, directory):
        if self.at == "start":
            raise SystemExit("no connection\nto the server")
        return _Failing(self.at)


class _Failing:
    def __init__(self, at):
        self._at = at

    def log(self, round, values):
        if self._at == "log":
            raise OSError(f"round {round} is lost")

    def finish(self, status):
        if self._at == "finish":
            raise ValueError("https://me:secret@host:5000/a has no end")


@dataclass(frozen=True)
class FailsAt(Column):
    """Not a tracker: ends the run at an evaluation."""

    round: int = 0

    def values(self, engine):
        if engine.t == self.round:
            raise ArithmeticError
        return {}
