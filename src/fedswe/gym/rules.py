"""The rules that are measured, and the models each is judged at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fedswe import registry
from fedswe.comparison.labels import file_name, parse_label
from fedswe.core.footprint import Footprint, footprint
from fedswe.errors import require
from fedswe.experiment.configuration import experiment, override

# Served models: every rule may choose among them, on held-out data.
OUTPUTS = ("server", "client_mean", "ema")
AVERAGE_DECAY = 0.97  # of the averages over rounds


@dataclass(frozen=True)
class Rule:
    """An algorithm with its parameters, named by its label."""

    label: str  # fedswe:k=100, ./mine.py:Mine

    @property
    def file_name(self) -> str:
        return file_name(self.label)

    @cached_property
    def table(self) -> dict[str, Any]:
        """The section `algorithm`."""
        name, parameters = parse_label(self.label)
        table = override({}, [f"algorithm.name={name}", *(f"algorithm.{p}" for p in parameters)])
        experiment(table)  # refuses what is wrong with it
        section: dict[str, Any] = table["algorithm"]
        return section

    @property
    def footprint(self) -> Footprint:
        return footprint(experiment({"algorithm": self.table}).algorithm, d=FOOTPRINT_D)

    @property
    def aided(self) -> bool:
        """Whether it needs the true probabilities, which no real client knows."""
        return bool(registry.resolve("algorithm", self.table["name"]).needs_probabilities)


FOOTPRINT_D = 1000  # parameters of the model that footprints are counted for

RULES: dict[str, tuple[str, ...]] = {
    "ci": ("fedavg", "fedau", "fedswe:k=10"),
    "small": (
        "fedavg",
        "fedavg:clip=0.5",
        "fedavg:chain=[momentum:0.9]",
        "fedavg_all",
        "fedavg_known",
        "fedau",
        "interval_weights:power=0.25",
        "interval_weights",
        "interval_weights:power=0.75",
        "interval_weights:power=1",
        "f3ast:budget=0",
        "fedawe",
        "fedawe:clip=0.5",
        "fedswe:k=10",
        "fedswe:k=100",
        "fedswe:k=100:clip=0.5",
        "fedswe_variant:k=30:echo_cap=10:clip=0.5",
        "fedswe_variant:k=100:clip=0.5",
        "mifa",
        "fedvarp",
        "scaffold",
    ),
    "full": ("fedavg", "fedau", "mifa", "fedawe:clip=0.5", "fedswe:k=100:clip=0.5", "interval_weights"),
}


def rules_named(labels: Sequence[str]) -> list[Rule]:
    rules = [Rule(label) for label in labels]
    names = [rule.file_name for rule in rules]
    for rule in rules:
        require(names.count(rule.file_name) == 1, f"{rule.label!r} gives no file name of its own: rename it")
        rule.table  # noqa: B018  refuses what is wrong with it, before anything runs
    return rules
