"""A tracker of your own: a line of JSON for each evaluation. fedswe run track=./examples/own_tracker.py:Lines"""

import json
from dataclasses import dataclass

from fedswe.tracking import Tracker


@dataclass(frozen=True)
class Lines(Tracker):
    """A line of JSON for each evaluation."""

    file: str = "lines.jsonl"  # in the run directory

    def start(self, settings, directory):
        return LinesOfRun(directory / self.file)


class LinesOfRun:
    def __init__(self, path):
        self.path = path

    def log(self, round, values):
        self.write({"round": round, "available": values["available"]})

    def finish(self, status):
        self.write(status)

    def write(self, value):
        with self.path.open("a") as file:
            file.write(json.dumps(value) + "\n")
