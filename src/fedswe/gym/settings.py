"""What rules are measured on: a setting is a task with an availability, a scale is a list of settings.

All are in settings.toml.
"""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from fedswe.errors import require, suggestion
from fedswe.experiment.configuration import experiment
from fedswe.experiment.experiment import Experiment
from fedswe.gym.trial import Search, Trial

ScaleName = Literal["ci", "small", "full"]
Table = Mapping[str, Any]

TRACES = "FEDSWE_TRACES"  # the environment variable that names the folder of the recorded traces


@dataclass(frozen=True)
class Scale:
    name: ScaleName
    tasks: Mapping[str, Table]  # name to the section `task`
    availabilities: Mapping[str, Table]  # name to the lengths in rounds that depend on the scale
    rounds: int
    local: Table  # the section `local`, without what is tuned and clip
    evaluate: Table  # the section `evaluate`, without the served models
    tuning_seeds: tuple[int, ...]  # of the runs by which trials are chosen
    seeds: tuple[int, ...]  # of the runs by which rules are judged
    search: Search


_FILE = tomllib.loads(files("fedswe.gym").joinpath("settings.toml").read_text("utf-8"))
_COMMON, _AVAILABILITIES = _FILE["common"], _FILE["availabilities"]
SCALES: dict[ScaleName, Scale] = TypeAdapter(dict[ScaleName, Scale]).validate_python(
    {name: {"name": name, **table} for name, table in _FILE["scales"].items()}
)
GRADIENT_BOUND: float = _COMMON["local"]["clip"]
HOLD_OUT: float = _COMMON["task"]["hold_out"]


@dataclass(frozen=True)
class Setting:
    scale: Scale
    task: str
    availability: str

    @property
    def name(self) -> str:
        return f"{self.task}-{self.availability}"

    @property
    def trace(self) -> Path | None:
        """Where the trace of its availability is looked for, if that is recorded."""
        file = _AVAILABILITIES[self.availability]["availability"].get("file", "")
        return trace_folder() / file if file else None

    def digest(self, outputs: tuple[str, ...]) -> str:
        """Of everything that results depend on besides rule, trial, seed and arithmetic; of a trace, its content.

        Empty if the trace is not there: the digest cannot be known.
        """
        if self in missing_traces([self]):
            return ""
        table = self.table(outputs)
        if self.trace:
            table["availability"]["file"] = _content(self.trace)
        return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()[:12]

    def table(self, outputs: tuple[str, ...]) -> dict[str, Any]:
        """The configuration without rule, trial and seed."""
        scale, table = self.scale, dict[str, Any]()
        of_scale = {"task": scale.tasks[self.task], "local": scale.local, "evaluate": scale.evaluate}
        lengths = {"availability": scale.availabilities[self.availability], "evaluate": {"model": list(outputs)}}
        for part in (_COMMON, of_scale, _AVAILABILITIES[self.availability], lengths):
            for section, values in part.items():
                table[section] = {**table.get(section, {}), **values}
        if self.trace:
            table["availability"]["file"] = str(self.trace)
        return {"rounds": scale.rounds, **table}

    def experiment(self, rule: Table, trial: Trial, seed: int, outputs: tuple[str, ...]) -> Experiment:
        """The run of a rule, which may also change the chain of the gradients."""
        table = self.table(outputs)
        table["local"] = {**table["local"], **rule.get("local", {})}
        table["evaluate"]["ema_correct_bias"] = False  # as in the measurements that are stored
        return experiment(trial.change({**table, "algorithm": dict(rule["algorithm"]), "seed": seed}))


@cache
def _content(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def trace_folder() -> Path:
    return Path(os.environ.get(TRACES) or "traces")


def missing_traces(settings: list[Setting]) -> list[Setting]:
    """The settings whose trace is not there."""
    return [s for s in settings if s.trace and not s.trace.is_file()]


def settings_of(scale: Scale, tasks: tuple[str, ...] = (), availabilities: tuple[str, ...] = ()) -> list[Setting]:
    """All settings of a scale, or those of some tasks and availabilities."""
    for what, words, known in (("task", tasks, scale.tasks), ("availability", availabilities, scale.availabilities)):
        for word in words:
            hint = suggestion(word, list(known))
            require(word in known, f"unknown {what} {word!r} of the gym at scale {scale.name}: {hint}")
    return [
        Setting(scale, task, availability)
        for task in scale.tasks
        for availability in scale.availabilities
        if task in (tasks or scale.tasks) and availability in (availabilities or scale.availabilities)
    ]
