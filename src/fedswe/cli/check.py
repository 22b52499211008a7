"""The command `fedswe check`: try the laws on an algorithm of the user's."""

from __future__ import annotations

from typing import Annotated

import typer

from fedswe.cli.console import console
from fedswe.errors import FedsweError, located


def check_command(label: Annotated[str, typer.Argument(metavar="FILE:CLASS[:KEY=VALUE]")]) -> None:
    """Check an algorithm of yours: what holds for every algorithm, one line per law."""
    from fedswe.comparison.labels import labelled
    from fedswe.engine.laws import LAWS

    algorithm, broken = labelled({}, label).algorithm, False
    for law in LAWS:
        told = ""
        try:
            law(algorithm)
        except (Exception, SystemExit) as error:
            told, broken = f": {(not isinstance(error, FedsweError) and located(error)) or error}", True
        console.print(f"{'wrong ' if told else 'passed'}  {law.__doc__}{told}")
    raise typer.Exit(broken)
