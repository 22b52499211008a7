"""The command `fedswe report`: one page about runs, comparisons, gyms, reproductions and deployments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedswe.cli.console import console
from fedswe.errors import require
from fedswe.foreign_code import only_code_of


def report_command(
    directories: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...",
            help="Directories of runs, comparisons, a gym, a reproduction, or the server of a deployment",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html", help="Default: report.html in the directory of a run or a comparison, or here"
        ),
    ] = None,
    pdf: Annotated[bool, typer.Option("--pdf", help="Also write a PDF to print, FILE.pdf")] = False,
    own: Annotated[
        Path | None,
        typer.Option(
            "--app",
            metavar="FOLDER",
            help="Where the code of your own tasks is, which show the clients again; default: none is run, because "
            "others may have written DIR",
        ),
    ] = None,
) -> None:
    """Write one HTML page with summary, tables and charts, which can be read offline."""
    from fedswe.report.write import write_report

    require(own is None or own.is_dir(), f"--app {own}: there is no such folder")
    with only_code_of(own):
        for path in write_report(directories, out, pdf):
            console.print(f"report    {path}")
