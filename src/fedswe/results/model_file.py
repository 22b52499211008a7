"""model.safetensors: the evaluated models of a run, each as named tensors with their shapes.

MODEL.NAME   the tensor NAME of the state dict of MODEL, e.g. server.0.weight
MODEL        the model as one vector, if it is not just the tensors of its state dict in order: where layers are frozen,
             or have buffers. In files of earlier versions it is all there is.

The metadata are models and tensors (their names in order, as JSON lists), task, algorithm and round; chosen (a JSON
object: the model that a choice such as best names) and served (the name of the served model) where there are any.
"""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import safetensors.torch
import torch

from fedswe.core.algorithm import Algorithm
from fedswe.core.records import Vector
from fedswe.errors import FedsweError, needed
from fedswe.registry import name_of
from fedswe.tasks.problem import Problem, Task

StateDict = dict[str, torch.Tensor]
Format = Literal["safetensors", "torch", "onnx"]
FORMATS: dict[str, Format] = {".safetensors": "safetensors", ".pt": "torch", ".pth": "torch", ".onnx": "onnx"}


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


def to_bytes(tensors: Mapping[str, torch.Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """The content of a safetensors file with these tensors, from any device. The same tensors give the same bytes."""
    # The format refuses tensors that share memory or are not contiguous.
    copies = {name: value.detach().cpu().clone().contiguous() for name, value in tensors.items()}
    content = safetensors.torch.save(copies, metadata)
    return _with_sorted_metadata(content) if metadata and len(metadata) > 1 else content


def _with_sorted_metadata(content: bytes) -> bytes:
    """safetensors writes the metadata in random order; their order does not change the length of the header."""
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + content[end:]


# for other programs ------------------------------------------------------------------------------------------
def content(tensors: StateDict, model: str, format: Format, problem: Callable[[], Problem]) -> bytes:
    """The tensors of a model in a format; ONNX needs the problem, which has the network."""
    if format == "onnx":
        return _onnx(problem, tensors)
    if format == "safetensors":
        return to_bytes(tensors, {"format": "pt", "model": model})
    file = io.BytesIO()
    torch.save(tensors, file)
    return file.getvalue()


def _onnx(problem: Callable[[], Problem], tensors: StateDict) -> bytes:
    """The network with the given parameters; the first dimension of inputs and outputs is of any size."""
    for module in ("onnx", "onnxscript"):
        needed(module, "onnx")
    example = problem().example()
    if example is None:
        raise FedsweError("the task has no network, which onnx needs: choose another format=")
    network, inputs = example
    network.load_state_dict(tensors)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it logs which other packages are not installed
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch about itself
            program = torch.onnx.export(
                network, (inputs,), dynamo=True, verbose=False, input_names=["input"], output_names=["output"],
                dynamic_shapes=({0: torch.export.Dim("batch")},),
            )  # fmt: skip
    except Exception as error:  # of many kinds, for networks with operations that ONNX lacks
        reason = " ".join(str(error).split())[:200]
        raise FedsweError(f'torch cannot export this network as onnx ({reason}): choose format="torch"') from None
    assert program is not None
    return program.model_proto.SerializeToString()  # type: ignore[no-any-return]
