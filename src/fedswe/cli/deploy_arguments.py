"""Arguments that the commands of `fedswe deploy` share, and what they need before they begin."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fedswe.errors import FedsweError

AppFolder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the app")]
OwnTasks = Annotated[
    Path | None, typer.Option("--app", metavar="DIR", help="Where your own task is; default: the folder of RUN_DIR")
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN_DIR", help="The run directory of the server")]


def need_flower() -> None:
    try:
        import flwr
        import psutil
    except ImportError as error:
        raise FedsweError(f"{error.name} is not installed: pip install 'fedswe[flower]'") from None
    del flwr, psutil


def find_tasks(run: Path, app: Path | None) -> None:
    """Make the user's own task importable: it is in the app, which holds the run directory of a trial."""
    sys.path.insert(0, str((app or run.resolve().parent).resolve()))
