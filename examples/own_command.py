"""A command of your own, `fedswe rounds RUN_DIR`, here the number of evaluated rounds of a run.

It is found through an entry point of the package it is installed with; in that package's pyproject.toml:

    [project.entry-points."fedswe.commands"]
    rounds = "own_command:app"
"""

from pathlib import Path

import typer

from fedswe.results.run_directory import RunDirectory

app = typer.Typer()


@app.command()
def rounds(run: Path) -> None:
    """Say how many rounds of a run were evaluated."""
    history = RunDirectory(run).history()
    print(f"{len(history.rows)} evaluations, the last after round {history.last['round']:g}")
