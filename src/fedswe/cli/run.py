"""The command `fedswe run`: run one experiment, or resume it, and print its scores."""

from __future__ import annotations

import signal
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from fedswe.cli.arguments import Out, Settings, directory, split
from fedswe.cli.console import RoundProgress, console
from fedswe.errors import FedsweError, require

if TYPE_CHECKING:
    from fedswe.experiment.experiment import Experiment
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
    from fedswe.experiment.configuration import DEFAULT, experiment, read

    file, overrides = split(settings or [])
    with ExitStack() as opened:
        if resume is not None:
            if out is not None:
                raise FedsweError("--resume continues in its own directory: leave out --out")
            value, place = _stored(resume, file, overrides), resume
        else:
            table = read(file, overrides)
            value = experiment(table)
            parts = {section: table.get(section, {}).get("name", name) for section, name in DEFAULT.items()}
            names = [_in_a_folder(name) for section, name in parts.items() if section != "clock"]
            place = opened.enter_context(directory(out, "-".join(names)))
        with _resumable(place), _Watch(value.rounds, quiet) as watch:
            ran = runner.resume(place, watch, value.track) if resume is not None else runner.run(value, place, watch)
        if quiet:
            console.print(str(place))
        else:
            _report(ran.history, place)
            if value.device != "cpu":
                import torch

                console.print(
                    f"memory    {torch.cuda.max_memory_allocated(value.device) / 2**30:.1f} GB on the GPU at most"
                )


def _in_a_folder(name: str) -> str:
    """A name as a part of a folder's name: mine.Damped for ./mine.py:Damped."""
    place, colon, cls = name.rpartition(":")
    return f"{Path(place).name.removesuffix('.py')}.{cls}" if colon else name


def _stored(place: Path, file: str | None, overrides: list[str]) -> Experiment:
    """The experiment in a run directory; the other arguments of the command must not change it, but for trackers."""
    from fedswe.experiment.configuration import experiment, load_text, override, read, refuse_other
    from fedswe.results.run_directory import RunDirectory

    text = RunDirectory(place).config()
    stored = load_text(text, str(place / "config.toml"))
    if file or overrides:
        table = read(file, overrides) if file else override(tomllib.loads(text), overrides)
        given = experiment(table)
        refuse_other(stored, given, place)
        require(
            given.threads == stored.threads,
            f"the run in {place} has threads = {stored.threads}: it continues with them",
        )
        if "track" in table:
            stored = replace(stored, track=given.track)
    return stored


class _Watch:
    """Shows the progress of a run, and stops it after the current round when SIGTERM has arrived."""

    def __init__(self, rounds: int, quiet: bool) -> None:
        from fedswe.experiment.runner import StopRun

        self._rounds, self._quiet, self._note, self._stop = rounds, quiet, "", StopRun
        self._terminated = False
        self._progress = RoundProgress()

    def __enter__(self) -> _Watch:
        self._before = signal.signal(signal.SIGTERM, self._terminate)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGTERM, self._before or signal.SIG_DFL)
        self._progress.__exit__()

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        self._terminated = True
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second signal ends the process at once

    def __call__(self, t: int, row: Row | None) -> None:
        if row is not None:
            self._note = headline(row)
        if not self._quiet:
            self._progress(t, self._rounds, self._note)
        if self._terminated:
            raise self._stop


@contextmanager
def _resumable(place: Path) -> Iterator[None]:
    """Say how to continue a run that was stopped: its directory may be one that the user did not name."""
    from fedswe.experiment.runner import StopRun

    try:
        yield
    except (KeyboardInterrupt, StopRun) as stop:
        if (place / "checkpoint.safetensors").is_file():
            console.print(f"stopped   continue with: fedswe run --resume {place}")
        elif (place / "config.toml").is_file():
            console.print(f"stopped   no checkpoint was saved in {place}: start the run again")
        if isinstance(stop, StopRun):
            raise typer.Exit(128 + signal.SIGTERM) from None
        raise


def headline(row: Row) -> str:
    """The most important score of each evaluated model."""
    for score, form in (("test_accuracy", "{:.1%}"), ("train_loss", "loss {:.4g}"), ("test_loss", "test loss {:.4g}")):
        found = {key.removesuffix(f"_{score}"): value for key, value in row.items() if key.endswith(f"_{score}")}
        if found:
            texts = (f"{name.replace('_', ' ')} {form.format(value)}" for name, value in found.items())
            return "  ".join(texts).replace("%", " %")
    from fedswe.clock.timed import COLUMNS

    return "  ".join(f"{key} {value:.4g}" for key, value in row.items() if key not in (*_NOT_SCORES, *COLUMNS))


def _report(history: History, place: Path) -> None:
    import numpy as np

    available = history["available"][1:]
    console.print(f"final     {headline(history.last) or 'this task has no scores'}")
    if available.size:
        console.print(
            f"clients   {np.mean(available):.1f} available on average in the evaluated rounds, "
            f"longest echo {int(history['echo_max'].max())} rounds"
        )
    if "simulated_seconds" in history.columns:
        console.print(f"time      {_times(history.last)}")
    console.print(f"results   {place}")


def _times(row: Row) -> str:
    """How long a run with simulated time took, and what became of the selected clients."""
    left = [f"{row[f'total_dropped_{when}']:.0f} {when}" for when in ("before", "during", "after")]
    share = row["wasted_seconds"] / row["work_seconds"] if row["work_seconds"] else 0.0
    return (
        f"{row['simulated_seconds']:.0f} simulated seconds; {row['total_selected']:.0f} selected, "
        f"{row['total_reported']:.0f} reported, dropped {', '.join(left)} training, {row['total_late']:.0f} late; "
        f"{share:.1%} of the clients' time wasted".replace("%", " %")
    )
