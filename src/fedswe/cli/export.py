"""The command `fedswe export`: write a model of a finished run for other programs."""

from __future__ import annotations

import io
import logging
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedswe.cli.console import console
from fedswe.errors import FedsweError, needed, require
from fedswe.results.files import write_whole

if TYPE_CHECKING:
    import torch

    from fedswe.experiment.result import Result

Format = Literal["safetensors", "torch", "onnx"]
FORMATS: dict[str, Format] = {".safetensors": "safetensors", ".pt": "torch", ".pth": "torch", ".onnx": "onnx"}


def export_command(
    run: Annotated[Path, typer.Argument(help="The directory of a finished run")],
    model: Annotated[str, typer.Option(help="An evaluated model, e.g. client_mean; default: the served model")] = "",
    format_: Annotated[
        Format | None, typer.Option("--format", help="Default: by the ending of --out, or safetensors")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The file to write; default: the name of the model")] = None,
) -> None:
    """Write a model of a finished run as a state dict, which torch's load_state_dict takes, or as ONNX."""
    from fedswe.experiment.result import load

    format_ = format_ or (FORMATS.get(out.suffix) if out else None) or "safetensors"
    result = load(run)
    model = model or result.served
    out = out or Path(Path(model).name + next(suffix for suffix, name in FORMATS.items() if name == format_))
    own = out.resolve() == (run / "model.safetensors").resolve()
    require(not own, f"{out} has all models of the run and is not replaced: choose another --out")
    write_whole(out, _content(result, model, format_))
    also = ", ".join(name for name in result.models if name != model)
    console.print(
        f"model     {out}: {model.replace('_', ' ')} after {result.history.last['round']:g} rounds"
        + (f" (--model: also {also})" if also else "")
    )


def _content(result: Result, model: str, format_: Format) -> bytes:
    import torch

    from fedswe.results.model_file import to_bytes

    tensors = result.state_dict(model)
    if format_ == "onnx":
        return _onnx(result, tensors)
    if format_ == "safetensors":
        return to_bytes(tensors, {"format": "pt", "model": model})
    file = io.BytesIO()
    torch.save(tensors, file)
    return file.getvalue()


def _onnx(result: Result, tensors: dict[str, torch.Tensor]) -> bytes:
    """The network with the given parameters; the first dimension of inputs and outputs is of any size."""
    for module in ("onnx", "onnxscript"):
        needed(module, "onnx")
    import torch

    from fedswe.experiment.experiment import populate

    example = populate(result.experiment)[0].example()
    if example is None:
        raise FedsweError("the task has no network, which onnx needs: choose --format safetensors or torch")
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
        raise FedsweError(f"torch cannot export this network as onnx ({reason}): choose --format torch") from None
    assert program is not None
    content: bytes = program.model_proto.SerializeToString()
    return content
