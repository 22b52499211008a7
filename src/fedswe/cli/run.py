"""The command `fedswe run`: run one experiment, or resume it, and print its scores."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from fedswe.cli.arguments import Out, Settings, directory, split
from fedswe.cli.console import RoundProgress, console
from fedswe.errors import require
from fedswe.registry import name_of

if TYPE_CHECKING:
    from fedswe.experiment.runner import Watch
    from fedswe.results.history import History, Row

_NOT_SCORES = ("round", "available", "reported", "echo_mean", "echo_max", "seconds")


def run_command(
    settings: Settings = None,
    out: Out = None,
    resume: Annotated[Path | None, typer.Option(metavar="DIR", help="Continue the run in this directory")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the directory of the results")] = False,
) -> None:
    """Run one experiment."""
    from fedswe.experiment import runner
    from fedswe.experiment.configuration import load, load_text
    from fedswe.results.run_directory import RunDirectory

    with ExitStack() as opened:
        if resume is not None:
            others = [word for word in settings or [] if not word.startswith("track=")] + ["--out"] * (out is not None)
            require(not others, f"--resume continues in its directory as it was started: leave out {' '.join(others)}")
            value, place = load_text(RunDirectory(resume).config(), f"{resume}/config.toml"), resume
            track = load(None, settings).track if settings else None
        else:
            value = load(*split(settings or []))
            names = [name_of(kind, type(getattr(value, kind))) for kind in ("algorithm", "availability", "task")]
            name = "-".join(Path(name).name.replace(".py:", ".") for name in names)
            place = opened.enter_context(directory(out, name))
        with _watched(value.rounds, quiet, place, value.evaluate.score) as watch:
            ran = runner.resume(place, watch, track) if resume is not None else runner.run(value, place, watch)
        if quiet:
            console.print(str(place))
        else:
            _report(ran.history, place, value.evaluate.score)
            if value.device != "cpu":
                import torch

                if torch.cuda.is_available():  # else the run was finished already, elsewhere
                    most = torch.cuda.max_memory_allocated(value.device) / 2**30
                    console.print(f"memory    {most:.1f} GB on the GPU at most")


@contextmanager
def _watched(rounds: int, quiet: bool, place: Path, score: str | None) -> Iterator[Watch]:
    """Shows the progress of a run; stops it after the current round when SIGTERM arrives, and says how to continue."""
    from fedswe.experiment.runner import StopRun

    note, terminated = "", False

    def terminate(number: int, frame: FrameType | None) -> None:
        nonlocal terminated
        terminated = True
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second signal ends the process at once

    def watch(t: int, row: Row | None) -> None:
        nonlocal note
        note = note if row is None else headline(row, score)
        progress(t, rounds, note)
        if terminated:
            raise StopRun

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        with RoundProgress(quiet) as progress:
            yield watch
    except (KeyboardInterrupt, StopRun) as stop:
        if (place / "checkpoint.safetensors").is_file():  # the directory may be one that the user did not name
            console.print(f"stopped   continue with: fedswe run --resume {place}")
        elif (place / "config.toml").is_file():
            console.print(f"stopped   no checkpoint was saved in {place}: start the run again")
        if isinstance(stop, StopRun):
            raise typer.Exit(128 + signal.SIGTERM) from None
        raise
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def headline(row: Row, wanted: str | None = None) -> str:
    """The wanted or else the most important score of each evaluated model."""
    forms = {"test_accuracy": "{:.1%}", "train_loss": "loss {:.4g}", "test_loss": "test loss {:.4g}"}
    own = {} if wanted is None else {wanted: forms.get(wanted, f"{wanted.replace('_', ' ')} {{:.4g}}")}
    for score, form in (own | forms).items():
        found = {key.removesuffix(f"_{score}"): value for key, value in row.items() if key.endswith(f"_{score}")}
        if found:
            texts = (f"{name.replace('_', ' ')} {form.format(value)}" for name, value in found.items())
            return "  ".join(texts).replace("%", " %")
    from fedswe.clock.seconds import COLUMNS

    return "  ".join(f"{key} {value:.4g}" for key, value in row.items() if key not in (*_NOT_SCORES, *COLUMNS))


def _report(history: History, place: Path, score: str | None) -> None:
    import numpy as np

    available = history["available"][1:]
    console.print(f"final     {headline(history.last, score) or 'this task has no scores'}")
    if available.size:
        console.print(
            f"clients   {np.mean(available):.1f} available on average in the evaluated rounds, "
            f"longest echo {int(history['echo_max'].max())} rounds"
        )
    row = history.last
    if "simulated_seconds" in row:
        left = [f"{row[f'total_dropped_{when}']:.0f} {when}" for when in ("before", "during", "after")]
        share = row["wasted_seconds"] / row["work_seconds"] if row["work_seconds"] else 0.0
        console.print(
            f"time      {row['simulated_seconds']:.0f} simulated seconds; {row['total_selected']:.0f} selected, "
            f"{row['total_reported']:.0f} reported, dropped {', '.join(left)} training, {row['total_late']:.0f} late; "
            f"{100 * share:.1f} % of the clients' time wasted"
        )
    console.print(f"results   {place}")
