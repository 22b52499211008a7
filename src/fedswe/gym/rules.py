"""The rules that are measured, and the models each is judged at."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fedswe import registry
from fedswe.comparison.labels import file_name, parse_label
from fedswe.core.footprint import Footprint, footprint
from fedswe.errors import require
from fedswe.experiment.configuration import experiment, override, sources

# Served models: every rule may choose among them, on held-out data.
OUTPUTS = ("server", "client_mean", "ema", "ema:of=client_mean")


@dataclass(frozen=True)
class Rule:
    """An algorithm with its parameters, named by its label; local.chain=... after a space changes the gradients."""

    label: str  # fedswe:k=100, ./mine.py:Mine, "fedavg local.chain=[prox:0.01]"

    @property
    def file_name(self) -> str:
        return file_name(self.label)

    @cached_property
    def table(self) -> dict[str, Any]:
        """The section `algorithm`, and the section `local` if it is changed."""
        label, *others = self.label.split(" ")
        for word in others:
            chain = word.startswith("local.chain=")
            require(chain, f"{self.label}: only local.chain may be changed; all other settings are those of the gym")
        name, parameters = parse_label(label)
        table = override({}, [f"algorithm.name={name}", *(f"algorithm.{p}" for p in parameters), *others])
        experiment(table)  # refuses what is wrong with it
        return table

    @cached_property
    def source(self) -> str:
        """A digest of the user's files it is made of; empty for a built-in rule."""
        digests = sources(experiment(self.table))
        return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()[:12] if digests else ""

    @property
    def footprint(self) -> Footprint:
        return footprint(experiment(self.table).algorithm, d=FOOTPRINT_D)

    @property
    def aided(self) -> bool:
        """Whether it needs the true probabilities, which no real client knows."""
        return bool(registry.resolve("algorithm", self.table["algorithm"]["name"]).needs_probabilities)


FOOTPRINT_D = 1000  # parameters of the model that footprints are counted for

RULES: dict[str, tuple[str, ...]] = {
    "ci": ("fedavg", "fedau", "fedswe:k=10"),
    "small": (
        # blind to availability
        "fedavg",
        "fedavg:clip=0.5",
        "fedavg local.chain=[prox:0.01]",
        "fedavg:chain=[momentum:0.9]",
        # FedAdam: its global rate is fixed, only the local rate is tuned, as for all
        "fedavg:lr=0.03:chain=[adam:beta2=0.99:eps=0.001:correct_bias=false]",
        "interval_extrapolation:power=0:least=0",  # FedExP with a bound
        "fedavg_known",
        # weights from the client's own intervals
        "fedau",
        "debiased_fedavg",
        "f3ast:budget=0",
        "interval_weights",
        "interval_weights:power=1",
        "interval_weights:power=1:least=1",
        "interval_weights:chain=[momentum:0.9]",
        "interval_extrapolation:least=0",
        "interval_extrapolation",
        "interval_extrapolation:chain=[momentum:0.5]",
        "echo:clip=0.5",
        # FedSWE
        "fedawe:clip=0.5",
        "fedswe:k=100",
        "fedswe:k=100:clip=0.5",
        "fedswe_variant:k=30:echo_cap=10:clip=0.5",
        "bounded_fedswe:k=30:clip=0.5",
        # a vector at every client
        "mifa",
        "fedvarp",
        "fedstale",
        "mimic",
        "ace",
        "ca2fl",
        "focus",
        "scaffold",
        "decayed_memory:decay=0.8",
        "decayed_memory",
        "decayed_memory:decay=0.97",
        # asynchronous, in rounds
        "fedbuff",
        "fedasync",
    ),
    "full": (
        "fedavg",
        "fedavg:chain=[momentum:0.9]",
        "fedavg:lr=0.03:chain=[adam:beta2=0.99:eps=0.001:correct_bias=false]",
        "fedau",
        "mifa",
        "fedawe:clip=0.5",
        "fedswe:k=100:clip=0.5",
        "interval_weights:power=1",
        "interval_weights:power=1:least=1",
        "interval_extrapolation:power=0:least=0",
        "interval_extrapolation:least=0",
        "interval_extrapolation",
        "interval_extrapolation:chain=[momentum:0.5]",
        "scaffold",
        "decayed_memory",
    ),
}


def rules_named(labels: Sequence[str]) -> list[Rule]:
    rules = [Rule(label) for label in labels]
    names = [rule.file_name for rule in rules]
    for rule in rules:
        require(labels.count(rule.label) == 1, f"{rule.label} is named twice, or is a rule of the scale already")
        require(names.count(rule.file_name) == 1, f"{rule.label!r} has the file name of another rule: rename it")
        rule.table  # noqa: B018  refuses what is wrong with it, before anything runs
    return rules
