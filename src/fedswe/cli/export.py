"""The command `fedswe export`: write a model of a finished run for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from fedswe.cli.console import console


def export_command(
    run: Annotated[Path, typer.Argument(help="The directory of a finished run")],
    model: Annotated[str, typer.Option(help="An evaluated model, e.g. client_mean; default: the served model")] = "",
    format_: Annotated[
        Literal["safetensors", "torch", "onnx"] | None,
        typer.Option("--format", help="Default: by the ending of --out, without it safetensors"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The file to write; default: the name of the model")] = None,
) -> None:
    """Write a model of a finished run as a state dict, which torch's load_state_dict takes, or as ONNX."""
    from fedswe.experiment.result import load
    from fedswe.results.model_file import FORMATS

    format_ = format_ or ("safetensors" if out is None else FORMATS.get(out.suffix))
    result = load(run)
    model = model or result.served
    out = out or Path(Path(model).name + next(suffix for suffix, name in FORMATS.items() if name == format_))
    result.export(out, model, format_)
    also = ", ".join(name for name in result.models if name != model)
    console.print(
        f"model     {out}: {model.replace('_', ' ')} after {result.history.last['round']:g} rounds"
        + (f" (--model: also {also})" if also else "")
    )
