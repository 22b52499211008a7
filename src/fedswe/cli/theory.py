"""fedswe theory: the paper's quantities for an experiment's clients."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from fedswe.analysis.assumption import assumption_report
from fedswe.analysis.bias import bias_of
from fedswe.analysis.mixing import mixing_report
from fedswe.analysis.rates import rates_report
from fedswe.analysis.report import Report, Sheet, plain
from fedswe.analysis.staleness import staleness_report
from fedswe.analysis.subject import Subject, subject
from fedswe.cli.arguments import numbers, split
from fedswe.errors import FedsweError
from fedswe.experiment.configuration import DEFAULT, experiment, read
from fedswe.plotting import check_format, save
from fedswe.registry import names
from fedswe_paper.theory_figures import figure_report

app = typer.Typer(
    no_args_is_help=True,
    help="The paper's quantities for your clients: connected, stale, biased? See docs/theory.md and docs/errata.md.",
)

AVAILABILITY = names("availability")
_WIDTH = 120  # of tables that do not go to a terminal

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[CONFIG.toml] [AVAILABILITY] [KEY=VALUE]...",
        help="As for fedswe run; a name such as sine stands for availability.name=sine",
    ),
]
Horizon = Annotated[
    int | None, typer.Option(help="Rounds to look at; default: rounds of the experiment or of the file")
]
Period = Annotated[int | None, typer.Option(help="The window P; default: the period of the availability")]
Confidence = Annotated[float, typer.Option(help="Of the intervals, where there are any")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else")]
Plot = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it: a .png, .svg or .pdf file")]
Draws = Annotated[
    int, typer.Option(help="Simulated windows instead of the exact value; 0: only where that is too slow")
]


@app.command()
def assumption(
    words: Words = None,
    delta: Annotated[
        str, typer.Option(help="Comma-separated: find the shortest window for each")
    ] = "0.01,0.05,0.1,0.2",
    period: Period = None,
    horizon: Horizon = None,
    confidence: Confidence = 0.95,
    as_json: Json = False,
    plot: Plot = None,
) -> None:
    """Is Assumption 1 satisfied, with which window P and delta?"""
    _check(plot)
    who = _subject(words, horizon)
    _deliver(who, assumption_report(who, numbers(delta, "--delta"), period, confidence), as_json, plot)


@app.command()
def staleness(
    words: Words = None,
    quantiles: Annotated[str, typer.Option(help="Comma-separated levels of the echo factor")] = "0.5,0.9,0.99",
    period: Period = None,
    horizon: Horizon = None,
    as_json: Json = False,
    plot: Plot = None,
) -> None:
    """How long are clients away, and how large are their echoes?"""
    _check(plot)
    who = _subject(words, horizon)
    _deliver(who, staleness_report(who, numbers(quantiles, "--quantiles"), period), as_json, plot)


@app.command()
def mixing(
    words: Words = None,
    k: Annotated[str, typer.Option("--k", help="Comma-separated interpolation coefficients")] = "0,1,2,5,10,20,50,100",
    period: Period = None,
    horizon: Horizon = None,
    draws: Draws = 0,
    confidence: Confidence = 0.95,
    as_json: Json = False,
    plot: Plot = None,
) -> None:
    """How well are the clients connected: rho_k and its bounds."""
    _check(plot)
    who = _subject(words, horizon)
    _deliver(who, mixing_report(who, _ks(k), period, draws, confidence), as_json, plot)


@app.command()
def rates(
    words: Words = None,
    k: Annotated[str, typer.Option("--k", help="Comma-separated interpolation coefficients")] = "0,1,10,100",
    period: Period = None,
    horizon: Horizon = None,
    draws: Draws = 0,
    along: Annotated[int, typer.Option(help="Estimate the task's constants over so many rounds of the run")] = 100,
    points: Annotated[int, typer.Option(help="At so many of its models")] = 6,
    as_json: Json = False,
    plot: Plot = None,
) -> None:
    """Which learning rates does the theorem allow; its bound term by term, with the constants of the task."""
    _check(plot)
    who = _subject(words, horizon, needs_task=True)
    _deliver(who, rates_report(who, _ks(k), period, draws, along, points), as_json, plot)


@app.command()
def bias(
    words: Words = None,
    k: Annotated[str | None, typer.Option("--k", help="Comma-separated; default: 0 and the experiment's k")] = None,
    step: Annotated[
        float | None,
        typer.Option(help="Fraction of the way to its optimum a visit goes; default: from the task, or 0.01"),
    ] = None,
    horizon: Horizon = None,
    as_json: Json = False,
    plot: Plot = None,
) -> None:
    """Whose optimum does FedAvg converge to, and how far does FedSWE correct it?"""
    _check(plot)
    who = _subject(words, horizon)
    _deliver(who, bias_of(who, None if k is None else _ks(k), step), as_json, plot)


@app.command()
def figure(
    number: Annotated[int, typer.Argument(metavar="2|4|5", help="Which figure of the paper")],
    as_json: Json = False,
    plot: Plot = None,
) -> None:
    """Figures 2, 4 and 5 of the paper, from exact values."""
    _check(plot)
    _deliver(None, figure_report(number), as_json, plot)


# the words of a command ------------------------------------------------------------------------------------
def _subject(words: list[str] | None, horizon: int | None, needs_task: bool = False) -> Subject:
    named = [word for word in words or [] if word in AVAILABILITY]
    rest = [word for word in words or [] if word not in AVAILABILITY]
    if len(named) > 1:
        raise FedsweError(f"one availability at a time, not {' and '.join(named)}")
    for word in rest:
        _refuse_typo(word)
    file, overrides = split(rest)
    table = read(file, [*(f"availability.name={name}" for name in named), *overrides])
    value = experiment(table)
    name = table.get("availability", {}).get("name", DEFAULT["availability"])
    return subject(value, name, horizon, needs_task or "task" in table)


def _refuse_typo(word: str) -> None:
    if "=" in word or Path(word).exists() or Path(word).suffix:
        return
    close = difflib.get_close_matches(word, AVAILABILITY, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(AVAILABILITY)}"
    raise FedsweError(f"{word!r} is neither a file nor an availability: {hint}")


def _ks(text: str) -> list[float]:
    return sorted(set(numbers(text, "--k")))


# the answer ------------------------------------------------------------------------------------------------
def _check(plot: Path | None) -> None:
    if plot is not None:
        check_format(plot)  # before the work


def _deliver(who: Subject | None, report: Report, as_json: bool, plot: Path | None) -> None:
    if who is not None:
        report = report.introduced(who.values(), who.notes())
    if plot is not None:
        save(report.draw, report.size, plot)
    if as_json:
        print(json.dumps(plain(report.values), allow_nan=False))
        return
    console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else _WIDTH)
    lead = len(who.notes()) if who is not None else 0
    _say(console, report.notes[:lead])
    for sheet in report.sheets:
        console.print(_table(sheet))
    _say(console, report.notes[lead:])
    if plot is not None:
        console.print(f"figure    {plot}", markup=False)


def _say(console: Console, notes: Sequence[str]) -> None:
    for note in notes:
        console.print(note, markup=False)


def _table(sheet: Sheet) -> Table:
    table = Table(title=sheet.title, title_justify="left")
    for i, column in enumerate(sheet.columns):
        table.add_column(column, justify="left" if i == 0 else "right", no_wrap=i == 0)
    for row in sheet.rows:
        table.add_row(*row)
    return table
