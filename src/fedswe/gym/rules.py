"""The rules that are measured, and the models each is judged at: those of rules.toml, and the user's."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Any

from fedswe import registry
from fedswe.comparison.labels import file_name, parse_label
from fedswe.core.footprint import Footprint, footprint
from fedswe.errors import FedsweError, require
from fedswe.experiment.configuration import experiment, override, sources
from fedswe.gym.trial import Trial

_FILE = tomllib.loads(files("fedswe.gym").joinpath("rules.toml").read_text("utf-8"))
OUTPUTS: tuple[str, ...] = tuple(_FILE["outputs"])  # the served models that every rule may choose among
RULES: dict[str, tuple[str, ...]] = {scale: tuple(labels) for scale, labels in _FILE["rules"].items()}
FOOTPRINT_D = 1000  # parameters of the model that footprints are counted for


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
        table["algorithm"].setdefault("lr", experiment(table).algorithm.lr)  # refuses what is wrong with the rule
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


def rules_named(labels: Sequence[str]) -> list[Rule]:
    rules = [Rule(label) for label in labels]
    names = [rule.file_name for rule in rules]
    for rule in rules:
        require(labels.count(rule.label) == 1, f"{rule.label} is named twice, or is a rule of the scale already")
        require(names.count(rule.file_name) == 1, f"{rule.label!r} has the file name of another rule: rename it")
        table = {"local": {}, "rounds": 10, **rule.table}  # refuses what is wrong with it, before anything runs
        try:
            experiment(Trial(1.0, momentum=0.5).change(table))
        except FedsweError as error:
            raise FedsweError(f"{rule.label} cannot be tuned like the other rules: {error}") from None
    return rules
