"""The command `fedswe check`: try the laws on an algorithm of the user's."""

from __future__ import annotations

from typing import Annotated

import typer

from fedswe.cli.console import console
from fedswe.errors import first_line, located


def check_command(
    label: Annotated[str, typer.Argument(metavar="FILE:CLASS[:KEY=VALUE]", help="An algorithm, e.g. ./mine.py:Mine")],
) -> None:
    """Check an algorithm of yours: what holds for every algorithm, one line per law."""
    from fedswe.comparison.labels import labelled
    from fedswe.engine.laws import LAWS, Broken

    algorithm, wrong = labelled({}, label).algorithm, 0
    for law in LAWS:
        try:
            law(algorithm)
        except (Exception, SystemExit) as error:
            wrong += 1
            told = str(error) if isinstance(error, Broken) else located(error) or first_line(error)
            console.print(f"wrong   {law.__doc__}: {told}")
        else:
            console.print(f"passed  {law.__doc__}")
    if wrong:
        raise typer.Exit(1)
