"""A deployment: an experiment and how its rounds are run between processes, as one value and one TOML file."""

from __future__ import annotations

import hashlib
import json
import tomllib
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

import tomli_w

from fedswe.algorithms import FedSWE
from fedswe.availability.model import Population, Probabilistic
from fedswe.availability.schedule import Schedule
from fedswe.clock import Rounds
from fedswe.core.algorithm import Algorithm
from fedswe.errors import require
from fedswe.experiment import configuration
from fedswe.experiment.experiment import Experiment, device_named, require_held_out
from fedswe.results.files import write_whole
from fedswe.tasks import Digits
from fedswe.tasks.problem import Problem, Setting

FILE = "deployment.toml"


@dataclass(frozen=True)
class Deployment:
    """In TOML: the keys of the experiment, and these under [deploy]."""

    experiment: Experiment = field(default_factory=Experiment)
    delivery: Literal["eager", "lazy"] = "eager"  # the reply right after the merge, or with the client's next job
    min_clients: int = 1  # connected clients that a round needs to open
    min_reports: int = 0  # reports with which a round may close before its deadline; 0 = wait for all clients
    deadline: float = 60.0  # seconds from opening a round to closing it
    max_norm: float | Literal["auto"] = "auto"  # how far (L2) one client may move in one round; 0 = any distance
    simulate_absence: bool = False  # clients decline by the experiment's availability; else they always take part
    keep_rounds: int = 2  # committed rounds that can be taken back
    metrics_port: int = 0  # of the metrics and the health check on 127.0.0.1; 0 = off
    log_format: Literal["text", "json"] = "text"  # of server.log
    trail: bool = False  # keep all server models and reports, and at clients their trails; else only digests

    def __post_init__(self) -> None:
        require(self.min_clients >= 0, f"min_clients must be 0 or more, not {self.min_clients}")
        require(self.min_reports >= 0, f"min_reports must be 0 (off) or more, not {self.min_reports}")
        require(0 < self.deadline < float("inf"), f"deadline must be positive seconds, not {self.deadline:g}")
        if self.max_norm != "auto":
            require(self.max_norm >= 0, f"max_norm must be auto, 0 (off) or positive, not {self.max_norm:g}")
        require(self.keep_rounds >= 0, f"keep_rounds must be 0 or more, not {self.keep_rounds}")
        require(0 <= self.metrics_port < 65536, f"metrics_port must be from 0 (off) to 65535, not {self.metrics_port}")
        require_held_out(self.experiment)
        record, local, availability = self.experiment.record, self.experiment.local, self.experiment.availability
        require(
            not record.columns and not record.trajectory,
            "record.columns and record.trajectory need a simulation: leave them out; deploy.trail keeps every model",
        )
        require(
            local.schedule != "cosine" or local.decay_rounds,
            "local.schedule=cosine needs local.decay_rounds here: the rounds of a deployment may change on the way",
        )
        require(
            not (isinstance(availability, Probabilistic) and availability.stream == "legacy"),
            "availability.stream=legacy is one generator for all clients: a deployment needs availability.stream=keyed",
        )
        require(
            isinstance(self.experiment.clock, Rounds),
            "the clock simulates time, and a deployment has its own: leave out [clock], and set deploy.deadline, "
            "deploy.min_clients and deploy.min_reports",
        )
        require(
            self.simulate_absence or not self.experiment.algorithm.needs_probabilities,
            f"{type(self.experiment.algorithm).__name__} needs the true probabilities, which no real client knows: "
            "choose another algorithm, or set deploy.simulate_absence=true",
        )

    def problem(self) -> Problem:
        """The task, built as the simulator builds it, but for samples that only their clients have."""
        import torch

        e = self.experiment
        return e.task.build(Setting(e.seed, getattr(torch, e.dtype), device_named(e.device), holds_data=False))

    def schedule(self, problem: Problem) -> Schedule | None:
        """The simulated availability; None if absence is not simulated."""
        if not self.simulate_absence:
            return None
        population = Population(problem.m, problem.drawn, problem.realised, sizes=problem.sizes)
        schedule = self.experiment.availability.schedule(population, self.experiment.seed)
        require(
            schedule.rounds is None or schedule.rounds >= self.experiment.rounds,
            f"the availability has {schedule.rounds} rounds but rounds = {self.experiment.rounds}: lower rounds",
        )
        return schedule

    def digest(self) -> str:
        """Identifies what must be equal at server and clients. Tasks are left out: their paths differ by client."""
        table = tomllib.loads(configuration.dump(replace(self.experiment, task=Digits())))
        shared = ["seed", "dtype", "algorithm", "local"]
        if self.simulate_absence:
            shared.append("availability")
        text = json.dumps({key: table[key] for key in shared}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def scores_digest(self) -> str:
        """Identifies what evaluations depend on besides the models."""
        table = tomllib.loads(configuration.dump(self.experiment))
        del table["evaluate"]["serve"]  # is written elsewhere, and changes no score
        text = json.dumps({key: table[key] for key in ("seed", "dtype", "task", "evaluate")}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def continues(self, folder: Path, begun: str) -> bool:
        """Whether the run in `folder`, which was begun under the digest `begun`, is of this deployment.

        A later version may know more keys, which changes the digest. The deployment.toml of the run then decides: it
        holds all keys of the version that wrote it.
        """
        return self.digest() == begun or self.digest() == Deployment.load(folder / FILE).digest()

    # TOML ----------------------------------------------------------------------------------------------
    def dump(self) -> str:
        options = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "experiment"}
        return configuration.dump(self.experiment) + "\n" + tomli_w.dumps({"deploy": options})

    def save(self, folder: Path) -> None:
        write_whole(folder / FILE, self.dump())

    @staticmethod
    def load(path: str | Path, overrides: list[str] | None = None) -> Deployment:
        """Read a TOML file, with ``section.key=value`` overrides."""
        return from_table(configuration.read(path, overrides or []))


def from_table(table: dict[str, Any]) -> Deployment:
    """Validate a table: the keys of an experiment, and a section [deploy]."""
    table = dict(table)
    options = table.pop("deploy", {})
    require(isinstance(options, dict), "deploy must be a section: write deploy.delivery=... or [deploy]")
    require("experiment" not in options, "unknown key deploy.experiment: the experiment's keys stand beside [deploy]")
    return configuration.build(Deployment, {"experiment": configuration.experiment(table), **options}, "deploy")


def served_by_default(algorithm: type[Algorithm]) -> str:
    """FedSWE's server model fluctuates from round to round; its client mean is the better model."""
    return "client_mean" if issubclass(algorithm, FedSWE) else "server"
