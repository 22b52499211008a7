"""A cell of a grid: a name and an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedswe.experiment.experiment import Experiment

PLANNED = "planned.txt"  # the names of all cells that commands were asked to run, a line each


@dataclass(frozen=True)
class Cell:
    name: str  # unique in its grid, and a file name; slashes separate folders
    experiment: Experiment
    notes: Mapping[str, Any] = field(default_factory=dict)  # plain values that are stored with the result
