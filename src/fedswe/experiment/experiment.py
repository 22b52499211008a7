"""An experiment is one frozen value; running it gives a history."""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from fedswe.algorithms import FedSWE
from fedswe.availability import Availability, Sine
from fedswe.availability.model import Population, Probabilistic
from fedswe.availability.schedule import Schedule
from fedswe.clock import Clock, Rounds
from fedswe.clock.model import Work
from fedswe.core.algorithm import Algorithm
from fedswe.core.footprint import footprint
from fedswe.core.local import Local
from fedswe.core.transforms import Clip
from fedswe.core.value import Count, Decay, Natural, Value
from fedswe.engine.outputs import NO_HELD_OUT
from fedswe.errors import FedsweError, require
from fedswe.registry import instance, names, split, toml_value
from fedswe.tasks import Digits, Task
from fedswe.tasks.problem import Problem, Setting

if TYPE_CHECKING:
    import torch

    from fedswe.engine.base import Engine
    from fedswe.engine.outputs import Best, Output


@dataclass(frozen=True)
class Evaluate(Value):
    """When, and at which models, a run is evaluated."""

    every: Count = 20  # rounds; round 0 and the last round are always evaluated
    model: list[str] = field(default_factory=lambda: ["server", "client_mean"], metadata={"kind": "output"})
    ema_decay: Decay = 0.99  # of each "ema" that does not name its own
    ema_correct_bias: bool = True  # likewise; false: it starts at x^0, as in earlier versions
    serve: str = ""  # the served model, one of `model`: what export writes unless told otherwise; empty: server
    tail: Natural = 0  # number of last rounds that are evaluated more often, to average their scores; 0 = none
    tail_every: Count = 2  # rounds between evaluations in the tail
    score: str | None = None  # that tables and figures show first, e.g. test_auc; default: the accuracy, or a loss

    def outputs(self) -> dict[str, Output | Best]:
        """The models that are evaluated, by name; that of a plug-in is its class."""
        return {output_label(text): self._output(text) for text in self.model}

    def _output(self, text: str) -> Output | Best:
        name, parameters = split("output", text)
        if name == "ema":
            own = {word.partition("=")[0] if "=" in word else "decay" for word in parameters}
            default = {"decay": self.ema_decay, "correct_bias": str(self.ema_correct_bias).lower()}
            text += "".join(f":{key}={value}" for key, value in default.items() if key not in own)
        made: Output | Best = instance("output", text, "model")
        return made

    @property
    def served(self) -> str:
        """The name of the served model in history and files; empty if none is set."""
        return output_label(self.serve) if self.serve in self.model else self.serve

    def due(self, t: int, rounds: int) -> bool:
        """Whether the models after t of so many rounds are evaluated."""
        return t % self.every == 0 or t == rounds or (t > rounds - self.tail and (rounds - t) % self.tail_every == 0)

    def __post_init__(self) -> None:
        require(self.model, f"model is empty: name at least one of {', '.join(names('output'))}")
        outputs = self.outputs()
        require(len(outputs) == len(self.model), "model names one model twice")
        require(not all(map(is_choice, self.model)), "model: best needs other models to choose from")
        known = self.serve in ("", *self.model, *outputs)
        require(known, f"serve must be one of the evaluated models ({', '.join(self.model)}), not {self.serve}")


def is_choice(text: str) -> bool:
    """Whether a model is chosen from the others, on held-out samples."""
    return split("output", text)[0] == "best"


@dataclass(frozen=True)
class Record(Value):
    """What a run directory keeps besides history and final models."""

    trajectory: bool = False  # the server model after every round
    checkpoint: Natural = 50  # rounds between checkpoints; 0 = none
    columns: list[str] = field(default_factory=list, metadata={"kind": "column"})  # additional columns of history.csv

    def __post_init__(self) -> None:
        for text in self.columns:
            instance("column", text, "columns")
        require(len(set(self.columns)) == len(self.columns), "columns names one column twice")


def output_label(text: str) -> str:
    """What a model is called in the history: ema, ema_0.9 for ema:0.9, ema_client_mean for ema:of=client_mean, Mine for
    ./file.py:Mine."""
    name, parameters = split("output", text)
    return "_".join([name.rpartition(":")[2], *map(_parameter_label, parameters)])


def _parameter_label(word: str) -> str:
    """of=client_mean is client_mean, by=loss by_loss, correct_bias=true correct_bias, decay=0.9 decay0.9."""
    key, equals, value = word.partition("=")
    match toml_value(value) if equals else None:
        case True:
            return key
        case str(text):
            return text if key == "of" else f"{key}_{text}"
    return word.replace("=", "")


def _labelled(kind: str) -> BeforeValidator:
    return BeforeValidator(lambda part: instance(kind, part, kind) if isinstance(part, str) else part)


@dataclass(frozen=True)
class Experiment(Value):
    """Everything that determines a run."""

    # By default those that the availability knows, or 500.
    rounds: Annotated[int, Field(ge=1, le=10**9)] = None  # type: ignore[assignment]
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 3
    engine: Literal["batched", "loop"] = "batched"
    dtype: Literal["float32", "float64"] = "float32"
    device: str = "cpu"
    # 0: OMP_NUM_THREADS, or one. Results depend on it by rounding only.
    threads: Annotated[int, Field(ge=0, le=1024)] = 0
    # Of these four also a label, such as "fedavg:lr=0.5".
    algorithm: Annotated[Algorithm, _labelled("algorithm")] = field(default_factory=FedSWE)
    availability: Annotated[Availability, _labelled("availability")] = field(default_factory=Sine)
    clock: Annotated[Clock, _labelled("clock")] = field(default_factory=Rounds)
    task: Annotated[Task, _labelled("task")] = field(default_factory=Digits)
    local: Local = field(default_factory=Local)
    evaluate: Evaluate = field(default_factory=Evaluate)
    record: Record = field(default_factory=Record)
    track: list[str] = field(default_factory=list, compare=False)  # trackers that get the scores; results are the same

    def __post_init__(self) -> None:
        if self.rounds is None:
            object.__setattr__(self, "rounds", self.clock.rounds(self.availability) or 500)
        require(len(set(self.track)) == len(self.track), "track names one tracker twice")
        for name in self.record.columns:
            instance("column", name, "record.columns").check(self.algorithm, self.local)
        plain, name = all(isinstance(t, Clip) for t in self.local.transforms), type(self.algorithm).__name__
        suits = plain or not self.algorithm.needs_plain_sgd
        require(suits, f"{name} computes gradients from the local progress: local.chain may hold only clip")


def assemble(experiment: Experiment) -> Engine:
    """Build task, availability and engine; everything that can be wrong with an experiment shows here."""
    from fedswe.engine import laws  # these import torch
    from fedswe.engine.batched import BatchedEngine
    from fedswe.engine.loop import LoopEngine

    # A task of your own shows at its first evaluation whether it has held-out samples.
    chooses = any(map(is_choice, experiment.evaluate.model))
    require(not chooses or getattr(experiment.task, "hold_out", None) != 0, NO_HELD_OUT)
    laws.refuse(experiment.algorithm)
    problem, schedule = populate(experiment)
    experiment.clock.check(schedule, experiment.rounds)
    engine = {"batched": BatchedEngine, "loop": LoopEngine}[experiment.engine]
    local = experiment.local.over(experiment.rounds)
    timeline = experiment.clock.timeline(schedule, partial(_work, experiment, problem), experiment.seed)
    return engine(experiment.algorithm, problem, schedule, local, experiment.seed, timeline)


def _work(experiment: Experiment, problem: Problem) -> Work:
    """What every client does in a round."""
    start = problem.start
    sent = footprint(experiment.algorithm, start.numel())
    down, up, reply = (start.element_size() * count for count in (sent.down, sent.up, sent.reply))
    return Work(problem.steps(np.arange(problem.m), experiment.local), down, up, reply)


def populate(experiment: Experiment) -> tuple[Problem, Schedule]:
    """The clients of an experiment: what they hold, and when they are available."""
    import torch

    wants_legacy = isinstance(experiment.availability, Probabilistic) and experiment.availability.stream == "legacy"
    legacy = np.random.RandomState(experiment.seed) if wants_legacy else None
    setting = Setting(experiment.seed, getattr(torch, experiment.dtype), device_named(experiment.device), legacy)
    problem = experiment.task.build(setting)
    problem.steps(np.arange(1), experiment.local)  # refuses epochs where there are no samples
    who = Population(problem.m, problem.drawn, problem.realised, legacy, problem.sizes)
    return problem, experiment.availability.schedule(who, experiment.seed)


def device_named(name: str) -> torch.device:
    """The device with this name, or one line that says why it cannot be used."""
    import torch

    known = re.fullmatch(r"cpu|cuda(?::(\d+))?", name)
    if known is None:
        raise FedsweError(f'device must be "cpu", "cuda" or "cuda:N", not "{name}"')
    if name != "cpu":
        require(torch.cuda.is_available(), f'device "{name}": no GPU is visible')
        count = torch.cuda.device_count()
        require(int(known[1] or 0) < count, f'device "{name}": GPUs are numbered from 0, and {count} are visible')
    return torch.device(name)


def changed_parameters(part: Any) -> dict[str, Any]:
    """The parameters of a part that are not the defaults of its class."""
    found = {}
    for f in fields(part):
        default = f.default if f.default_factory is MISSING else f.default_factory()
        value = getattr(part, f.name)
        if f.init and (default is MISSING or value != default):
            found[f.name] = value
    return found
