"""fedswe deploy: the algorithms on Flower."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fedswe.errors import FedsweError

app = typer.Typer(no_args_is_help=True, help="Run the algorithms on Flower, between real processes.")

_console = Console(highlight=False, soft_wrap=True)

AppFolder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the app")]
OwnTasks = Annotated[
    Path | None, typer.Option("--app", metavar="DIR", help="Where your own task is; default: the folder of RUN_DIR")
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN_DIR", help="The run directory of the server")]


@app.command()
def init(
    folder: AppFolder,
    clients: Annotated[int, typer.Option(help="How many clients the federation has")] = 4,
    tls: Annotated[bool, typer.Option("--tls", help="Certificates and node keys for a trial on this machine")] = False,
) -> None:
    """Write a complete Flower app."""
    _need_flower()
    from fedswe.deploy.flower.app_template import write_app

    write_app(folder, clients, tls)
    _console.print(f"app       {folder}: deployment.toml says what runs, federation/task.py takes your model and data")
    _console.print(f"next      fedswe deploy up {folder}")


@app.command()
def up(
    folder: AppFolder = Path(),
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Changes to deployment.toml, e.g. rounds=5")
    ] = None,
    clients: Annotated[int | None, typer.Option(help="SuperNodes to start; default: one per client")] = None,
    run: Annotated[Path | None, typer.Option(metavar="RUN_DIR", help="Run directory; default DIR/run")] = None,
    simulation: Annotated[bool, typer.Option("--simulation", help="On Flower's simulation engine (Ray)")] = False,
) -> None:
    """Start a SuperLink and SuperNodes on this machine, run the app (or continue it), and stop everything."""
    _need_flower()
    from fedswe.cli.deploy_up import up_command

    if "=" in str(folder):
        folder, overrides = Path(), [str(folder), *(overrides or [])]
    up_command(folder, overrides or [], clients, run, simulation)


@app.command()
def verify(run: RunFolder, own: OwnTasks = None) -> None:
    """Replay the algorithm in the simulator on the availability that happened, and compare every server model."""
    from fedswe.cli.deploy_results import verify_command

    verify_command(run, own)


@app.command()
def trace(
    run: RunFolder,
    out: Annotated[Path, typer.Option(help="The mask file to write, for availability.name=mask")] = Path("mask.csv"),
    own: OwnTasks = None,
) -> None:
    """Export the availability that happened as a mask the simulator replays."""
    from fedswe.cli.deploy_results import trace_command

    trace_command(run, out, own)


@app.command()
def status(run: RunFolder) -> None:
    """Say how far a run is, who was there, and what it moved."""
    from fedswe.cli.deploy_results import status_command

    status_command(run)


@app.command()
def export(
    run: RunFolder,
    out: Annotated[Path, typer.Option(help="The safetensors file to write")] = Path("model.safetensors"),
    model: Annotated[
        str, typer.Option(help="server or client_mean; default: the one the algorithm is best served by")
    ] = "",
    own: OwnTasks = None,
) -> None:
    """Write a model of a run, as it is now."""
    from fedswe.cli.deploy_results import export_command

    export_command(run, out, model, own)


def _need_flower() -> None:
    try:
        import flwr
        import psutil
    except ImportError as error:
        raise FedsweError(f"{error.name} is not installed: pip install 'fedswe[flower]'") from None
    del flwr, psutil
