"""An experiment is one frozen value; running it gives a history."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import torch

from fedswe.algorithms import FedSWE
from fedswe.availability import Availability, Sine
from fedswe.availability.model import Population, Probabilistic
from fedswe.availability.schedule import Schedule
from fedswe.core.algorithm import Algorithm
from fedswe.core.local import Local
from fedswe.core.transforms import Clip
from fedswe.engine import ENGINES, Engine
from fedswe.engine.columns import Auxiliary, Column, Consensus
from fedswe.engine.outputs import AugmentedMean, ClientMean, Ema, Output, ServerModel
from fedswe.errors import FedsweError, require
from fedswe.tasks import Digits, Task
from fedswe.tasks.problem import Problem, Setting

Judged = Literal["server", "client_mean", "augmented_mean", "ema"]
Probe = Literal["consensus", "auxiliary"]
_OUTPUTS: dict[str, Callable[[], Output]] = {
    "server": ServerModel,
    "client_mean": ClientMean,
    "augmented_mean": AugmentedMean,
}
COLUMNS: dict[str, Callable[[], Column]] = {"consensus": Consensus, "auxiliary": Auxiliary}


@dataclass(frozen=True)
class Evaluate:
    """When and at which models a run is judged."""

    every: int = 20  # rounds; round 0 and the last round are always evaluated
    model: list[Judged] = field(default_factory=lambda: ["server", "client_mean"])
    ema_decay: float = 0.99  # of the exponential average of server models, "ema"
    tail: int = 0  # so many final rounds, over which scores are averaged, are judged more often
    tail_every: int = 2  # rounds between evaluations there

    def outputs(self) -> dict[str, Output]:
        return {name: Ema(self.ema_decay) if name == "ema" else _OUTPUTS[name]() for name in self.model}

    def due(self, t: int, rounds: int) -> bool:
        """Whether the models after t of so many rounds are judged."""
        return t % self.every == 0 or t == rounds or (t > rounds - self.tail and (rounds - t) % self.tail_every == 0)

    def __post_init__(self) -> None:
        require(self.every >= 1, f"every must be at least 1 round, not {self.every}")
        require(self.model, "model is empty: name at least one of server, client_mean, augmented_mean, ema")
        require(len(set(self.model)) == len(self.model), "model names one model twice")
        require(0 <= self.ema_decay < 1, f"ema_decay must be in [0, 1), not {self.ema_decay:g}")
        require(self.tail >= 0, f"tail must be 0 (off) or positive, not {self.tail}")
        require(self.tail_every >= 1, f"tail_every must be at least 1 round, not {self.tail_every}")


@dataclass(frozen=True)
class Record:
    """What a run directory keeps besides history and final models."""

    trajectory: bool = False  # the server model after every round
    checkpoint: int = 50  # rounds between checkpoints; 0 = none
    probes: list[Probe] = field(default_factory=list)  # more columns of history.csv: consensus, auxiliary

    def __post_init__(self) -> None:
        require(self.checkpoint >= 0, f"checkpoint must be 0 (off) or positive, not {self.checkpoint}")
        require(len(set(self.probes)) == len(self.probes), "probes names one probe twice")


@dataclass(frozen=True)
class Experiment:
    """Everything that determines a run."""

    rounds: int = 500
    seed: int = 3
    engine: Literal["batched", "loop"] = "batched"
    dtype: Literal["float32", "float64"] = "float32"
    device: str = "cpu"
    algorithm: Algorithm = field(default_factory=FedSWE)
    availability: Availability = field(default_factory=Sine)
    task: Task = field(default_factory=Digits)
    local: Local = field(default_factory=Local)
    evaluate: Evaluate = field(default_factory=Evaluate)
    record: Record = field(default_factory=Record)

    def __post_init__(self) -> None:
        require(self.rounds >= 1, f"rounds must be at least 1, not {self.rounds}")
        require(0 <= self.seed < 2**32, f"seed must be from 0 to 2^32 - 1, not {self.seed}")
        _check_words(self, "")
        for section in ("algorithm", "availability", "task", "local", "evaluate", "record"):
            _check_words(getattr(self, section), f"{section}.")
        for name in self.record.probes:
            COLUMNS[name]().check(self.algorithm, self.local)
        require(
            not self.algorithm.needs_plain_sgd or all(isinstance(t, Clip) for t in self.local.transforms),
            f"{type(self.algorithm).__name__} reads gradients off the local progress: local.chain may hold only clip",
        )
        if self.local.schedule == "cosine" and not self.local.decay_rounds:
            object.__setattr__(self, "local", replace(self.local, decay_rounds=self.rounds))


def _check_words(part: Any, section: str) -> None:
    """Refuse a word that is none of those a field may hold: from Python nothing else does, and it would be ignored."""
    hints = get_type_hints(type(part))
    for f in fields(part):
        hint, words = hints[f.name], [getattr(part, f.name)]
        if get_origin(hint) is list:
            hint, words = get_args(hint)[0], *words
        if get_origin(hint) is Literal:
            for word in words:
                require(
                    word in get_args(hint),
                    f"{section}{f.name} must be one of {', '.join(get_args(hint))}, not {word!r}",
                )


def assemble(experiment: Experiment) -> Engine:
    """Build task, availability and engine; everything that can be wrong with an experiment shows here."""
    problem, schedule = populate(experiment)
    require(
        schedule.rounds is None or schedule.rounds >= experiment.rounds,
        f"the availability has {schedule.rounds} rounds but rounds = {experiment.rounds}: lower rounds or add rows",
    )
    engine = ENGINES[experiment.engine]
    return engine(experiment.algorithm, problem, schedule, experiment.local, experiment.seed)


def populate(experiment: Experiment) -> tuple[Problem, Schedule]:
    """The clients of an experiment: what they hold and when they are there."""
    wants_legacy = isinstance(experiment.availability, Probabilistic) and experiment.availability.stream == "legacy"
    legacy = np.random.RandomState(experiment.seed) if wants_legacy else None
    setting = Setting(experiment.seed, getattr(torch, experiment.dtype), device_named(experiment.device), legacy)
    problem = experiment.task.build(setting)
    who = Population(problem.m, problem.drawn, problem.realised, legacy)
    return problem, experiment.availability.schedule(who, experiment.seed)


def device_named(name: str) -> torch.device:
    """A device that is there, or one line that says it is not."""
    known = re.fullmatch(r"cpu|cuda(?::(\d+))?", name)
    if known is None:
        raise FedsweError(f'device must be "cpu", "cuda" or "cuda:N", not "{name}"')
    if name != "cpu":
        require(torch.cuda.is_available(), f'device "{name}": no GPU is visible')
        there = torch.cuda.device_count()
        require(int(known[1] or 0) < there, f'device "{name}": GPUs are numbered from 0, and {there} are visible')
    return torch.device(name)
