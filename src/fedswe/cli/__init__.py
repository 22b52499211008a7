"""The command line. Mistakes get one line on stderr and exit code 2; Typer makes 130 of Ctrl-C."""

from __future__ import annotations

import io
import sys

from fedswe.cli.app import app
from fedswe.errors import FedsweError


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a ± in an ASCII log is no reason to lose the table
    try:
        app()
    except FedsweError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
