"""What rules are measured on: a setting is a task with an availability, a scale is a list of settings."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from fedswe.errors import require, suggestion
from fedswe.experiment.configuration import experiment
from fedswe.experiment.experiment import Experiment

ScaleName = Literal["ci", "small", "full"]
Table = Mapping[str, Any]

TRACES = "FEDSWE_TRACES"  # the environment variable that names the folder of the recorded traces
GRADIENT_BOUND = 5.0  # of every stochastic gradient, for every rule: without it large rates end in NaN
HOLD_OUT = 0.1  # of the training samples, which rates and served models are chosen on

# Recorded devices: file, and the window without its artefacts. FLASH begins with 300 s in which all phones were set to
# available; after 45 hours FedScale's devices are.
_RECORDED: dict[str, Table] = {
    "flash-charging": {"file": "flash300_charging.csv", "start": 300.0},
    "flash-battery": {"file": "flash300_chg_or_batt50.csv", "start": 300.0},
    "fedscale": {"file": "fedscale300_48h.csv", "start": 0.0, "end": 45 * 3600.0},
    "flash-seconds": {"file": "flash300_charging.csv", "start": 300.0},
}
# In simulated time. The median phone trains for two and a half minutes and sends 10 kB in 20 s; a tenth of them
# need four times as long. A round ends with four fifths of the reports, or after half an hour.
_CLOCKS: dict[str, Table] = {
    "flash-seconds": {
        "name": "seconds",
        "deadline": 1800.0,
        "min_reports": 0.8,
        "step_seconds": 30.0,
        "step_sigma": 1.0,
        "download": 1000.0,
        "upload": 500.0,
        "network_sigma": 1.0,
    },
}


@dataclass(frozen=True)
class Scale:
    name: ScaleName
    purpose: str
    tasks: Mapping[str, Table]  # name to the section `task`
    availabilities: tuple[str, ...]
    rounds: int
    local: Table  # the section `local`, without lr and clip
    seeds: tuple[int, ...]
    rates: tuple[float, ...]  # that every rule is tried with, before the grid is extended
    least_trials: int  # rates that every rule is tried with at least
    most_trials: int  # where the grid is not extended further
    period: int  # of the groups that take turns
    evaluations: int  # over the run, evenly; the curve of a run
    decay: float  # of the averages over rounds that may be served

    @property
    def tail(self) -> int:
        """Rounds at the end that scores are averaged over: a whole number of periods of the groups."""
        return self.period if self.rounds >= 2 * self.period else self.rounds // 2


@dataclass(frozen=True)
class Setting:
    scale: Scale
    task: str
    availability: str

    @property
    def name(self) -> str:
        return f"{self.task}-{self.availability}"

    @property
    def recorded(self) -> bool:
        """Whether its availability is a trace: then it needs the file of the trace."""
        return self.availability in _RECORDED

    @property
    def timed(self) -> bool:
        """Whether it is in simulated time, with rounds of different length."""
        return self.availability in _CLOCKS

    def digest(self, outputs: tuple[str, ...]) -> str:
        """Of everything that results depend on besides rule, rate, seed and arithmetic; of a trace, its content.

        Empty if the trace is not there: the digest cannot be known.
        """
        table = self.table(outputs)
        availability = table["availability"]
        if "file" in availability:
            if not Path(availability["file"]).is_file():
                return ""
            availability["file"] = _content(availability["file"])
        return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()[:12]

    def table(self, outputs: tuple[str, ...]) -> dict[str, Any]:
        """The configuration without rule, rate and seed."""
        scale = self.scale
        turns = self.availability == "turns"
        return {
            "rounds": scale.rounds,
            "task": {
                **scale.tasks[self.task],
                "hold_out": HOLD_OUT,
                "score_train": False,
                **({"partition": "two_groups"} if turns else {}),
            },
            "availability": self._availability(),
            "local": {
                **scale.local,
                "clip": GRADIENT_BOUND,
                # Groups that take turns for ever need a rate that does not vanish, as in the paper.
                "schedule": "constant" if turns else "inverse_sqrt",
            },
            "evaluate": {
                "model": list(outputs),
                "ema_decay": scale.decay,
                "every": max(scale.rounds // scale.evaluations, 1),
                "tail": scale.tail,
                # 7 of 100 rounds or 3 of 40: no divisor of a period, so that all its phases are seen
                "tail_every": max(scale.tail // 13, 1),
            },
            "record": {"checkpoint": 0},
            **({"clock": dict(_CLOCKS[self.availability])} if self.timed else {}),
        }

    def _availability(self) -> dict[str, Any]:
        if self.availability in _RECORDED:
            table = dict(_RECORDED[self.availability])
            file = trace_folder() / table.pop("file")
            return {
                "name": "intervals",
                "file": str(file),
                "wrap": True,
                "prob": "estimate",
                # A clock looks at the seconds of the log, not at one moment of a round.
                **({} if self.timed else {"during": "middle"}),
                **table,
            }
        period, rounds = self.scale.period, self.scale.rounds
        models: dict[str, dict[str, Any]] = {
            "always": {"name": "always"},
            "stationary": {"name": "stationary"},
            "sine": {"name": "sine"},
            "turns": {"name": "alternating", "period": period},
            "cyclic": {"name": "cyclic"},
            "markov": {"name": "markov"},
            # Rounds of an hour: the last rounds, which are scored, are longer than a day.
            "daily": {"name": "daily_markov", "alpha": 1.0, "beta": 3.0, "never": 0.02, "round_seconds": 3600.0},
            "outages": {"name": "outages", "regions": 5, "share": 0.3, "length": float(period)},
            "join-leave": {"name": "join_leave", "join_rounds": rounds // 2, "stay_rounds": rounds / 2},
        }
        return models[self.availability]

    def experiment(self, rule: Table, rate: float, seed: int, outputs: tuple[str, ...]) -> Experiment:
        """The run of a rule, which may also change the chain of the gradients."""
        table = self.table(outputs)
        table["local"] = {**table["local"], **rule.get("local", {}), "lr": rate}
        return experiment({**table, "algorithm": dict(rule["algorithm"]), "seed": seed})


@cache
def _content(file: str) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


def trace_folder() -> Path:
    return Path(os.environ.get(TRACES) or "traces")


def trace_files() -> dict[str, Path]:
    """The recorded traces by name, where they are looked for."""
    return {name: trace_folder() / table["file"] for name, table in _RECORDED.items()}


def missing_traces(settings: list[Setting]) -> list[Setting]:
    """The settings whose trace is not there."""
    files = trace_files()
    return [s for s in settings if s.recorded and not files[s.availability].is_file()]


def settings_of(scale: Scale, tasks: tuple[str, ...] = (), availabilities: tuple[str, ...] = ()) -> list[Setting]:
    """All settings of a scale, or those of some tasks and availabilities."""
    for word, known, what in (
        *((t, tuple(scale.tasks), "task") for t in tasks),
        *((a, scale.availabilities, "availability") for a in availabilities),
    ):
        require(word in known, f"unknown {what} {word!r} of the gym at scale {scale.name}: {suggestion(word, known)}")
    return [
        Setting(scale, task, availability)
        for task in scale.tasks
        for availability in scale.availabilities
        if (not tasks or task in tasks) and (not availabilities or availability in availabilities)
    ]


_ALL = (
    "always", "stationary", "sine", "turns", "cyclic", "markov", "daily", "outages", "join-leave",
    "flash-charging", "flash-battery", "fedscale", "flash-seconds",
)  # fmt: skip

SCALES: dict[ScaleName, Scale] = {
    "ci": Scale(
        name="ci",
        purpose="seconds: every code path, no meaning",
        tasks={"digits": {"name": "digits", "clients": 20, "model": "softmax"}},
        availabilities=("sine", "turns"),
        rounds=12,
        local={"steps": 2, "batch_size": 16},
        seeds=(3, 4),
        rates=(0.1, 0.2, 0.4),
        least_trials=3,
        most_trials=4,
        period=4,
        evaluations=4,
        decay=0.8,
    ),
    "small": Scale(
        name="small",
        purpose="hours on two cores: small models, every rule and every availability",
        tasks={
            "digits": {"name": "digits", "clients": 100, "model": "mlp"},
            "fashion": {"name": "fashion_mnist", "clients": 100, "model": "softmax", "pool": 2, "samples": 8000},
            "svhn": {
                "name": "svhn",
                "clients": 100,
                "model": "mlp",
                "pool": 4,
                "samples": 8000,
                "crop": 0,
            },
        },
        availabilities=_ALL,
        rounds=200,
        local={"steps": 5, "batch_size": 10},
        seeds=(3, 4, 6),
        rates=(0.1, 0.2, 0.4),
        least_trials=4,
        most_trials=12,
        period=40,
        evaluations=10,
        decay=0.97,
    ),
    "full": Scale(
        name="full",
        purpose="the paper's networks and data, for a GPU; half its batches, fewer rounds",
        tasks={
            "svhn": {"name": "svhn", "clients": 100},
            "cifar10": {"name": "cifar10", "clients": 100},
        },
        availabilities=("sine", "turns", "flash-charging", "fedscale"),
        rounds=500,
        local={"steps": 10, "batch_size": 64},
        seeds=(3, 4, 6),
        rates=(0.1, 0.2, 0.4),
        least_trials=3,
        most_trials=6,
        period=100,
        evaluations=20,
        decay=0.99,
    ),
}
