"""The commands that look at results: `fedswe plot`, `fedswe report` and `fedswe watch`."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated, Any

import typer

from fedswe.cli.arguments import comma_separated
from fedswe.cli.console import console
from fedswe.errors import require


def plot_command(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Runs or comparisons")],
    x: Annotated[str, typer.Option("--x", help="rounds, seconds, simulated (time) or bytes (sent)")] = "rounds",
    y: Annotated[str, typer.Option("--y", help="A column of the history; default: test_accuracy or a loss")] = "",
    model: Annotated[str, typer.Option(help="Comma-separated evaluated models; default: all")] = "",
    kind: Annotated[str, typer.Option(help="curves, or final: the mean over the last 50 rounds")] = "curves",
    size: Annotated[str, typer.Option(help="Width: single (3.3 inches) or double (6.9 inches)")] = "double",
    label: Annotated[
        list[str] | None, typer.Option(metavar="OLD=NEW", help="Another name for a curve; give it once for each")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="A .svg, .pdf or .png file")] = Path("plot.svg"),
) -> None:
    """Draw the scores of runs over rounds, time or traffic, or their final scores."""
    from fedswe.figures import plot

    for word in label or []:
        require("=" in word, f"--label {word}: write OLD=NEW")
    labels = {old: new for old, _, new in (word.rpartition("=") for word in label or [])}  # OLD may have a =
    options: dict[str, Any] = {"x": x, "kind": kind, "size": size, "labels": labels}  # `plot` checks them
    plot(directories, y=y or None, models=comma_separated(model), out=out, **options)
    console.print(f"figure    {out}")


def report_command(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Runs, comparisons, a gym or a reproduction")
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Default: report.html in the run or comparison, or here")
    ] = None,
) -> None:
    """Write one HTML page with summary, tables and charts, which can be read offline."""
    from fedswe.report import write_report

    console.print(f"report    {write_report(directories, out)}")


def watch_command(
    directories: Annotated[
        list[Path] | None, typer.Argument(metavar="[DIR]...", file_okay=False, help="Results or folders; default: runs")
    ] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Default: 8765, or any that is free")] = None,
) -> None:
    """Show the report in the browser, on this machine only, and keep it up to date while runs go on."""
    from fedswe.report.server import ReportServer

    roots = directories or [Path("runs")]
    with ReportServer(roots, port) as server:
        console.print(f"watch     http://{server.hosts[0]}/ (Ctrl-C ends it)")
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return
