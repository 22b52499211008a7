"""fedswe compare."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from fedswe.algorithms import ALGORITHMS
from fedswe.cli import arguments as command_words
from fedswe.cli.arguments import Jobs, Out, Words
from fedswe.comparison import TAIL, Cell, Comparison, compare
from fedswe.errors import FedsweError, require
from fedswe.experiment.configuration import DEFAULT, experiment, override, read
from fedswe.experiment.experiment import Experiment, assemble, populate
from fedswe.plotting import Panel, Series, plot_comparison
from fedswe.results.files import write_whole

_console = Console(highlight=False, soft_wrap=True)


def compare_command(
    words: Words = None,
    algorithms: Annotated[
        str, typer.Option(help="Comma-separated names, with parameters after colons: fedswe:k=10,fedavg; or all")
    ] = "all",
    seeds: Annotated[str, typer.Option(help="Comma-separated seeds or ranges, e.g. 3,4,6 or 1-5")] = "3,4,6",
    tune: Annotated[str, typer.Option(help="Local rates to choose from for each algorithm; empty: use local.lr")] = "",
    tuning_seed: Annotated[int, typer.Option(help="The seed the rates are chosen on; not reported")] = 1,
    jobs: Jobs = 0,
    out: Out = None,
) -> None:
    """Run several algorithms on the same clients and the same availability, and print a table."""
    file, overrides = command_words.split(words or [])
    chosen = list(ALGORITHMS) if algorithms == "all" else [name.strip() for name in algorithms.split(",") if name]
    if not chosen:
        raise FedsweError("--algorithms is empty: name some of `fedswe list`, or all")
    repeated = {name for name in chosen if chosen.count(name) > 1}
    if repeated:
        raise FedsweError(f"--algorithms names {repeated.pop()} twice")
    values = [(label, _experiment(label, file, overrides)) for label in chosen]
    rates = command_words.numbers(tune, "--tune")
    seed_list = command_words.whole_numbers(seeds, "--seeds")
    if not seed_list:
        raise FedsweError("--seeds is empty: give at least one, e.g. --seeds 3,4,6")
    require(jobs >= 0, f"--jobs must be 0 (one per core) or positive, not {jobs}")
    # Every mistake shows before the first run: each algorithm, and the clients of each seed.
    engines = [assemble(value) for _, value in values]
    scores = engines[0].evaluate(engines[0].server_model())
    require("train_loss" in scores, f"compare needs the score train_loss; this task has {', '.join(scores)}")
    for seed in [*seed_list, *([tuning_seed] if rates else [])]:
        populate(replace(values[0][1], seed=seed))
    with command_words.directory(out, "compare") as place:
        with _Display() as display:
            result = compare(values, seed_list, rates, tuning_seed, place, jobs or None, display)
        write_whole(place / "compare.csv", result.to_csv())
        title = _title(read(file, overrides), seed_list, values[0][1].rounds)
        plot_comparison(_panels(result), title, place / "compare.png")
        _print(result, seed_list, values[0][1].rounds, rates)
        _console.print(f"results   {place}/compare.csv, compare.png, compare.svg, runs/")


def _experiment(label: str, file: str | None, overrides: list[str]) -> Experiment:
    """The experiment of one algorithm, e.g. ``fedswe:k=10``; the file's own parameters apply to its own algorithm."""
    name, *parameters = label.split(":")
    table = override(read(file, overrides), [f"algorithm.name={name}", *(f"algorithm.{p}" for p in parameters)])
    return experiment(table)


def _panels(result: Comparison) -> list[Panel]:
    """The headline score over the rounds, one panel per evaluated model."""
    score = result.headline
    panels = []
    for model in dict.fromkeys(e.model for e in result.entries):
        series = [
            Series(e.label, e.histories[0]["round"].tolist(), [h[f"{model}_{score}"] for h in e.histories])
            for e in result.entries
            if e.model == model
        ]
        panels.append(Panel(model.replace("_", " "), series, score.replace("_", " "), log=score.endswith("loss")))
    return panels


def _title(table: dict[str, Any], seeds: list[int], rounds: int) -> str:
    """Data set, availability, seeds and rounds, as the configuration names them."""
    task, availability = ({"name": DEFAULT[part], **table.get(part, {})} for part in ("task", "availability"))
    data = Path(task["file"]).name if "file" in task else task["name"]
    return f"{data}, {availability['name']} availability, seeds {', '.join(map(str, seeds))}, {rounds} rounds"


class _Display:
    """Cells done, on a terminal as a bar, elsewhere as lines."""

    def __init__(self) -> None:
        self._printed = time.monotonic()
        self._bar = Progress(
            TextColumn("runs"),
            MofNCompleteColumn(),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[latest]}"),
            console=_console,
            disable=not _console.is_terminal,
        )
        self._task = self._bar.add_task("", total=None, latest="")

    def __enter__(self) -> _Display:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, done: int, known: int, cell: Cell) -> None:
        self._bar.update(self._task, completed=done, total=known, latest=cell.name)
        if not _console.is_terminal and (time.monotonic() - self._printed > 5 or done == known):
            self._printed = time.monotonic()
            _console.print(f"runs {done}/{known}  {cell.name}")


def _print(result: Comparison, seeds: list[int], rounds: int, rates: list[float]) -> None:
    models = list(dict.fromkeys(e.model for e in result.entries))
    several = len(seeds) > 1
    percent = result.headline == "test_accuracy"
    table = Table(title=f"{result.headline.replace('_', ' ')}{', %' if percent else ''}", title_justify="left")
    table.add_column("algorithm", no_wrap=True)
    for model in models:
        table.add_column(model.replace("_", " "), justify="right", no_wrap=True)
        if rates:
            table.add_column("local lr", justify="right", style="dim", no_wrap=True)
    best = {m: _best(result, m, percent) for m in models}
    for label in dict.fromkeys(e.label for e in result.entries):
        cells = []
        for entry in (e for e in result.entries if e.label == label):
            mean, std = entry.score(result.headline)
            parts = (f"{100 * mean:.1f}", f"{100 * std:.1f}") if percent else (f"{mean:.4g}", f"{std:.2g}")
            text = " ± ".join(parts if several else parts[:1])
            text = text if math.isfinite(mean) else "diverged"
            cells += [f"[bold]{text}[/bold]" if label == best[entry.model] else text]
            cells += [f"{entry.rate:g}"] * bool(rates)
        table.add_row(label, *cells)
    # As wide as it is: a narrow terminal may break its lines, but no label and no number is cut.
    natural = Measurement.get(_console, _console.options.update(max_width=1000), table).maximum
    Console(width=max(natural, _console.width)).print(table)
    tuned = (
        f"local rate chosen from {', '.join(f'{r:g}' for r in rates)} by training loss on another seed" if rates else ""
    )
    _console.print(
        ("mean ± std over seeds" if several else "mean for seed")
        + f" {', '.join(map(str, seeds))} of the last {min(TAIL, rounds)} of {rounds} rounds"
        + (f"; {tuned}" if tuned else "")
    )


def _best(result: Comparison, model: str, higher: bool) -> str:
    finite = [e for e in result.entries if e.model == model and math.isfinite(e.score(result.headline)[0])]
    pick = max if higher else min
    return pick(finite, key=lambda e: e.score(result.headline)[0]).label if finite else ""
