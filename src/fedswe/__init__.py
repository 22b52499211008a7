"""Federated learning when clients come and go: FedSWE and its peers, one definition each."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedswe.analysis.description import describe as describe
    from fedswe.comparison.compare import Comparison as Comparison
    from fedswe.comparison.compare import compare as compare
    from fedswe.core.local import Local as Local
    from fedswe.errors import FedsweError as FedsweError
    from fedswe.experiment.experiment import Evaluate as Evaluate
    from fedswe.experiment.experiment import Experiment as Experiment
    from fedswe.experiment.experiment import Record as Record
    from fedswe.experiment.result import Result as Result
    from fedswe.experiment.result import load as load
    from fedswe.experiment.runner import resume as resume
    from fedswe.experiment.runner import run as run
    from fedswe.figures import plot as plot

__version__ = "0.1.0"

_MODULES = {  # of the public names; imported when a name is first used, since most of them import torch
    "Comparison": "fedswe.comparison.compare",
    "Evaluate": "fedswe.experiment.experiment",
    "Experiment": "fedswe.experiment.experiment",
    "FedsweError": "fedswe.errors",
    "Local": "fedswe.core.local",
    "Record": "fedswe.experiment.experiment",
    "Result": "fedswe.experiment.result",
    "compare": "fedswe.comparison.compare",
    "describe": "fedswe.analysis.description",
    "load": "fedswe.experiment.result",
    "plot": "fedswe.figures",
    "resume": "fedswe.experiment.runner",
    "run": "fedswe.experiment.runner",
}
__all__ = sorted(["__version__", *_MODULES])


def __getattr__(name: str) -> object:
    if name in ("algorithms", "availability", "tasks"):
        return import_module(f"fedswe.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
