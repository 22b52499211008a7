"""The command `fedswe plot`: figures of runs and comparisons."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fedswe.cli.console import console


def plot_command(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Directories of runs or of comparisons", show_default=False)
    ],
    x: Annotated[
        str, typer.Option("--x", help="rounds, seconds, simulated (time) or bytes (sent by all clients, up and down)")
    ] = "rounds",
    y: Annotated[
        str, typer.Option("--y", help="A score or another column of the history; default: test_accuracy or a loss")
    ] = "",
    model: Annotated[str, typer.Option(help="Comma-separated evaluated models; default: all")] = "",
    kind: Annotated[str, typer.Option(help="curves, or final: the mean over the last 50 rounds")] = "curves",
    size: Annotated[str, typer.Option(help="Width: single (3.3 inches) or double (6.9 inches)")] = "double",
    out: Annotated[Path, typer.Option(metavar="FILE", help="A .svg, .pdf or .png file")] = Path("plot.svg"),
) -> None:
    """Draw the scores of runs over rounds, time or traffic, or their final scores."""
    from fedswe.figures import plot

    options: dict[str, Any] = {"x": x, "kind": kind, "size": size}  # `plot` checks them
    plot(directories, y=y or None, models=[name for name in model.split(",") if name], out=out, **options)
    console.print(f"figure    {out}")
