"""Federated learning when clients come and go: FedSWE and its peers, one definition each."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedswe.comparison.compare import compare
    from fedswe.comparison.table import Comparison
    from fedswe.core.local import Local
    from fedswe.errors import FedsweError
    from fedswe.experiment.experiment import Evaluate, Experiment, Record
    from fedswe.experiment.result import Result, load
    from fedswe.experiment.runner import resume, run
    from fedswe.figures import plot

__version__ = "0.1.0"

__all__ = [
    "Comparison",
    "Evaluate",
    "Experiment",
    "FedsweError",
    "Local",
    "Record",
    "Result",
    "__version__",
    "compare",
    "load",
    "plot",
    "resume",
    "run",
]

_MODULES = {  # of the public names; imported when a name is first used, since most of them import torch
    "Comparison": "fedswe.comparison.table",
    "Evaluate": "fedswe.experiment.experiment",
    "Experiment": "fedswe.experiment.experiment",
    "FedsweError": "fedswe.errors",
    "Local": "fedswe.core.local",
    "Record": "fedswe.experiment.experiment",
    "Result": "fedswe.experiment.result",
    "compare": "fedswe.comparison.compare",
    "load": "fedswe.experiment.result",
    "plot": "fedswe.figures",
    "resume": "fedswe.experiment.runner",
    "run": "fedswe.experiment.runner",
}


_PACKAGES = ("algorithms", "availability", "tasks")


def __getattr__(name: str) -> object:
    if name in _PACKAGES:
        return import_module(f"fedswe.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
