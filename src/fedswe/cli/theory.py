"""fedswe theory: the paper's quantities for an experiment's clients."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedswe.cli.arguments import Json, numbers, split
from fedswe.cli.console import console, print_json, print_table
from fedswe.errors import FedsweError, suggestion

if TYPE_CHECKING:
    from fedswe.analysis.report import Report
    from fedswe.analysis.scenario import Scenario


def _drawable(plot: Path | None) -> Path | None:
    """Refuse a file that cannot be drawn before anything is computed."""
    if plot is not None:
        from fedswe.plotting import check_format

        check_format(plot)
    return plot


_SETTINGS = "[CONFIG.toml] [AVAILABILITY] [KEY=VALUE]..."
Settings = Annotated[
    list[str] | None, typer.Argument(metavar=_SETTINGS, help="As for fedswe run; sine is availability.name=sine")
]
Horizon = Annotated[int | None, typer.Option(help="Rounds to analyse; default: those of the experiment or the file")]
Period = Annotated[int | None, typer.Option(help="The window P; default: the period of the availability")]
Confidence = Annotated[float, typer.Option(min=0, max=1, help="Confidence level of the intervals")]
Plot = Annotated[
    Path | None, typer.Option(metavar="FILE", callback=_drawable, help="Write a figure to this .png, .svg or .pdf file")
]
Ks = Annotated[str, typer.Option("--k", help="Comma-separated interpolation coefficients")]
Draws = Annotated[int, typer.Option(help="Simulated windows; 0: only where the exact value takes too long")]


def assumption(
    settings: Settings = None,
    delta: Annotated[str, typer.Option(help="Find the shortest window for each of these")] = "0.01,0.05,0.1,0.2",
    period: Period = None,
    horizon: Horizon = None,
    confidence: Confidence = 0.95,
    as_json: Json = False,
    plot: Plot = None,
) -> None:
    """Is Assumption 1 satisfied, with which window P and delta?"""
    from fedswe.analysis.quantities import assumption_report

    clients = named_scenario(settings, horizon)
    deliver(assumption_report(clients, numbers(delta, "--delta"), period, confidence), as_json, plot, clients)


def staleness(
    settings: Settings = None,
    quantiles: Annotated[str, typer.Option(help="Comma-separated levels of the echo factor")] = "0.5,0.9,0.99",
    period: Period = None,
    horizon: Horizon = None,
    as_json: Json = False,
    plot: Plot = None,
) -> None:
    """How long are clients unavailable, and how large are their echoes?"""
    from fedswe.analysis.quantities import staleness_report

    clients = named_scenario(settings, horizon)
    deliver(staleness_report(clients, numbers(quantiles, "--quantiles"), period), as_json, plot, clients)


def mixing(
    settings: Settings = None,
    k: Ks = "0,1,2,5,10,20,50,100",
    period: Period = None,
    horizon: Horizon = None,
    draws: Draws = 0,
    confidence: Confidence = 0.95,
    as_json: Json = False,
    plot: Plot = None,
) -> None:
    """How well are the clients connected: rho_k and its bounds."""
    from fedswe.analysis.quantities import mixing_report

    clients = named_scenario(settings, horizon)
    deliver(mixing_report(clients, _ks(k), period, draws, confidence), as_json, plot, clients)


def rates(
    settings: Settings = None,
    k: Ks = "0,1,10,100",
    period: Period = None,
    horizon: Horizon = None,
    draws: Draws = 0,
    smoothness: Annotated[float, typer.Option(metavar="L", min=0, help="Of the objectives, Assumption 2")] = 1.0,
    noise: Annotated[float, typer.Option(metavar="SIGMA2", min=0, help="Variance of gradients, Assumption 3")] = 1.0,
    beta: Annotated[float, typer.Option(min=0, help="Of Assumption 4, beside the heterogeneity zeta")] = 0.0,
    heterogeneity: Annotated[float, typer.Option(metavar="ZETA", min=0, help="Of the clients, Assumption 4")] = 1.0,
    gap: Annotated[float, typer.Option(min=0, help="F(x^0) - F*")] = 1.0,
    as_json: Json = False,
    plot: Plot = None,
) -> None:
    """Which learning rates does the theorem allow; its bound term by term, for the given constants of a task."""
    from fedswe.analysis.quantities import rates_report

    clients = named_scenario(settings, horizon)
    report = rates_report(
        clients, _ks(k), period, draws, beta, smoothness=smoothness, sigma_squared=noise, zeta=heterogeneity,
        initial_gap=gap,
    )  # fmt: skip
    deliver(report, as_json, plot, clients)


def bias(
    settings: Settings = None,
    k: Annotated[str | None, typer.Option("--k", help="Comma-separated; default: 0 and the experiment's k")] = None,
    step: Annotated[
        float | None, typer.Option(help="Part of the way to its optimum per report; default: that of the task, or 0.01")
    ] = None,
    horizon: Horizon = None,
    as_json: Json = False,
    plot: Plot = None,
) -> None:
    """Whose optimum does FedAvg converge to, and how far does FedSWE correct it?"""
    from fedswe.analysis.bias import bias_report

    clients = named_scenario(settings, horizon)
    deliver(bias_report(clients, None if k is None else _ks(k), step), as_json, plot, clients)


# the arguments of a command --------------------------------------------------------------------------------
def named_scenario(settings: list[str] | None, horizon: int | None) -> Scenario:
    from fedswe.analysis.scenario import scenario
    from fedswe.experiment.configuration import DEFAULT, experiment, read
    from fedswe.registry import names

    known = names("availability")
    named = [word for word in settings or [] if word in known]
    rest = [word for word in settings or [] if word not in known]
    if len(named) > 1:
        raise FedsweError(f"one availability at a time, not {' and '.join(named)}")
    for word in rest:
        if not ("=" in word or Path(word).exists() or Path(word).suffix):
            raise FedsweError(f"{word!r} is neither a file nor an availability: {suggestion(word, known)}")
    file, overrides = split(rest)
    table = read(file, [*(f"availability.name={name}" for name in named), *overrides])
    name = table.get("availability", {}).get("name", DEFAULT["availability"])
    return scenario(experiment(table), name, horizon, "task" in table)


def _ks(text: str) -> list[float]:
    return sorted(set(numbers(text, "--k")))


# the answer ------------------------------------------------------------------------------------------------
def deliver(report: Report, as_json: bool, plot: Path | None, clients: Scenario | None = None) -> None:
    """Draw a report if asked for, and print it as tables and notes or as JSON."""
    from fedswe.analysis.report import cells
    from fedswe.plotting import save

    if plot is not None:
        save(report.draw, report.size, plot)
    if as_json:
        print_json({**(clients.values() if clients is not None else {}), **report.values})
        return
    for note in clients.notes() if clients is not None else []:
        console.print(note)
    for title, rows in report.tables.items():
        print_table(title, *cells(rows), numbers=True)
    for note in report.notes:
        console.print(note)
    if plot is not None:
        console.print(f"figure    {plot}")
