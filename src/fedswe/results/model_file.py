"""model.safetensors: the evaluated models of a run, each as named tensors with their shapes.

MODEL.NAME   the tensor NAME of the state dict of MODEL, e.g. server.0.weight
MODEL        the model as one vector, if it is not just the tensors of its state dict in order: where layers are frozen,
             or have buffers. In files of earlier versions it is all there is.

The metadata are models and tensors (their names in order, as JSON lists), task, algorithm and round; chosen (a JSON
object: the model that a choice such as best names) and served (the name of the served model) where there are any.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import safetensors
import torch

from fedswe.core.algorithm import Algorithm
from fedswe.core.records import Vector
from fedswe.errors import FedsweError
from fedswe.registry import name_of
from fedswe.results.tensors import to_bytes
from fedswe.tasks.problem import Task

StateDict = dict[str, torch.Tensor]


@dataclass(frozen=True, eq=False)
class Models:
    """Models by name, on the CPU."""

    vectors: dict[str, Vector]
    state_dicts: dict[str, StateDict]  # empty if the file is of an earlier version
    chosen: Mapping[str, str] = field(default_factory=dict)  # the model that best names
    served: str = ""  # as evaluate.serve says

    @classmethod
    def of(
        cls,
        vectors: Mapping[str, Vector],
        state_dict: Callable[[Vector], StateDict],
        chosen: Mapping[str, str],
        served: str,
    ) -> Models:
        """Copies of the models of a run."""
        copies = {model: x.detach().cpu().clone() for model, x in vectors.items()}
        named = {model: {n: v.detach().cpu().clone() for n, v in state_dict(x).items()} for model, x in vectors.items()}
        return cls(copies, named, chosen, served)

    def to_bytes(self, task: Task, algorithm: Algorithm, t: int) -> bytes:
        """The content of the file after t rounds."""
        tensors: StateDict = {}
        for model, named in self.state_dicts.items():
            tensors |= {f"{model}.{name}": value for name, value in named.items()}
            if not torch.equal(_joined(named), self.vectors[model]):
                tensors[model] = self.vectors[model]
        metadata = {
            "format": "pt",  # as libraries that read state dicts expect
            "models": json.dumps(list(self.vectors)),
            "tensors": json.dumps(list(next(iter(self.state_dicts.values())))),
            "task": name_of("task", type(task)),
            "algorithm": name_of("algorithm", type(algorithm)),
            "round": str(t),
        }
        if self.chosen:
            metadata["chosen"] = json.dumps(dict(self.chosen))
        if self.served:
            metadata["served"] = self.served
        return to_bytes(tensors, metadata)

    @classmethod
    def read(cls, path: Path) -> Models:
        try:
            with safetensors.safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if "models" not in metadata:
                return cls(tensors, {})
            models, names = (json.loads(metadata[key]) for key in ("models", "tensors"))
            named = {model: {name: tensors[f"{model}.{name}"] for name in names} for model in models}
            vectors = {model: tensors.get(model, _joined(named[model])) for model in models}
            return cls(vectors, named, json.loads(metadata.get("chosen", "{}")), metadata.get("served", ""))
        except (OSError, safetensors.SafetensorError, KeyError, TypeError, ValueError, RuntimeError):
            raise FedsweError(f"{path} is damaged: run the experiment again") from None


def _joined(named: StateDict) -> Vector:
    return torch.cat([value.reshape(-1) for value in named.values()])
