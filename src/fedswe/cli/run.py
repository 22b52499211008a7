"""fedswe run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fedswe.cli import arguments as command_words
from fedswe.errors import FedsweError
from fedswe.experiment.configuration import DEFAULT, experiment, load_text, override, read, refuse_other
from fedswe.experiment.experiment import Experiment
from fedswe.experiment.runner import resume, run
from fedswe.results.history import History, Row
from fedswe.results.run_directory import RunDirectory

_console = Console(highlight=False, soft_wrap=True)


def run_command(words: list[str], out: Path | None, resumed: Path | None) -> None:
    file, overrides = command_words.split(words)
    if resumed is not None:
        if out is not None:
            raise FedsweError("--resume continues in its own directory: leave out --out")
        value = _stored(resumed, file, overrides)
        with _resumable(resumed), _Display(value) as display:
            history = resume(resumed, display)
        _report(history, resumed)
        return
    table = read(file, overrides)
    value = experiment(table)
    names = (table.get(section, {}).get("name", name) for section, name in DEFAULT.items())
    with command_words.directory(out, "-".join(names)) as place:
        with _resumable(place), _Display(value) as display:
            history = run(value, place, display, _console.print)
        _report(history, place)


@contextmanager
def _resumable(place: Path) -> Iterator[None]:
    """Who interrupts a run learns how to go on: the directory may be one they did not name."""
    try:
        yield
    except KeyboardInterrupt:
        if (place / "config.toml").is_file():
            _console.print(f"stopped   go on with: fedswe run --resume {place}", markup=False)
        raise


def _stored(directory: Path, file: str | None, overrides: list[str]) -> Experiment:
    """The experiment in a run directory; what the user adds to the command must not change it."""
    text = RunDirectory(directory).config()
    stored = load_text(text, str(directory / "config.toml"))
    table = read(file, overrides) if file else override(_table(text), overrides)
    if file or overrides:
        refuse_other(stored, experiment(table), directory)
    return stored


def _table(text: str) -> dict[str, object]:
    import tomllib

    return tomllib.loads(text)


class _Display:
    """A progress bar on a terminal, plain lines elsewhere."""

    def __init__(self, value: Experiment) -> None:
        self._rounds, self._latest, self._first = value.rounds, "", 0
        self._began = self._printed = time.monotonic()
        self._bar = Progress(
            TextColumn("round"),
            MofNCompleteColumn(),
            BarColumn(),
            TextColumn("{task.fields[rate]} rounds/s  {task.fields[latest]}"),
            TimeRemainingColumn(),
            console=_console,
            disable=not _console.is_terminal,
        )
        self._task = self._bar.add_task("", total=value.rounds, rate="-", latest="")

    def __enter__(self) -> _Display:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, t: int, row: Row | None) -> None:
        self._first = self._first or t
        rate = f"{(t - self._first + 1) / max(time.monotonic() - self._began, 1e-9):.0f}"
        if row is not None:
            self._latest = headline(row)
        self._bar.update(self._task, completed=t, rate=rate, latest=self._latest)
        now = time.monotonic()
        if not _console.is_terminal and row is not None and (now - self._printed > 1 or t == self._rounds):
            self._printed = now
            _console.print(f"round {t}/{self._rounds}  {self._latest}  {rate} rounds/s")


def headline(row: Row) -> str:
    """The score of each evaluated model that a reader wants first."""
    accuracies = {
        k.removesuffix("_test_accuracy"): f"{100 * v:.1f} %" for k, v in row.items() if k.endswith("_test_accuracy")
    }
    losses = {k.removesuffix("_train_loss"): f"loss {v:.4g}" for k, v in row.items() if k.endswith("_train_loss")}
    return "  ".join(f"{name.replace('_', ' ')} {score}" for name, score in (accuracies or losses).items())


def _report(history: History, out: Path) -> None:
    available = history["available"][1:]
    _console.print(f"final     {headline(history.last)}")
    if available.size:
        _console.print(
            f"clients   {np.mean(available):.1f} available on average in the evaluated rounds, "
            f"longest echo {int(history['echo_max'].max())} rounds"
        )
    if not all(np.isfinite(value) for value in history.last.values()):
        _console.print("warning   the model diverged (NaN or infinity): lower local.lr, or set a clip or an echo_cap")
    _console.print(f"results   {out}")
