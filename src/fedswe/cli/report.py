"""The command `fedswe report`: one page about runs, comparisons, gyms and reproductions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedswe.cli.console import console


def report_command(
    directories: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...",
            help="Directories of runs, comparisons, a gym or a reproduction",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html", help="Default: report.html in the directory of a run or a comparison, or here"
        ),
    ] = None,
) -> None:
    """Write one HTML page with summary, tables and charts, which can be read offline."""
    from fedswe.report import write_report

    console.print(f"report    {write_report(directories, out)}")
