"""fedswe availability: describe a trace, a model or a run; fit a generator to a trace; convert traces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedswe.availability.statistics import DAY
from fedswe.cli.arguments import Json
from fedswe.cli.console import console, print_json, print_table
from fedswe.cli.theory import Confidence, Horizon, Plot, check_plot, deliver, named_scenario
from fedswe.errors import FedsweError, require

if TYPE_CHECKING:
    from fedswe.analysis.description import Described
    from fedswe.analysis.report import Report

_ROUND_SECONDS = 600.0

RoundSeconds = Annotated[float, typer.Option("--round-seconds", help="Length of a round, for logs of intervals")]
Start = Annotated[str, typer.Option(help="When round 0 begins: seconds or a timestamp, as in the log")]
End = Annotated[str, typer.Option(help="When the last round must have ended, likewise")]
Devices = Annotated[int, typer.Option(help="Size of the population, if the log omits devices that were never online")]
Orient = Annotated[Literal["rounds", "clients"] | None, typer.Option(help="What the rows of a table are")]
Observed = Annotated[str, typer.Option(metavar="FILE", help="Log of the times in which each device was observed")]


def describe_command(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="TRACE|MODEL|RUN [KEY=VALUE]...",
            help="A log or a table of rounds; an availability such as sine; or the directory of a run",
        ),
    ],
    round_seconds: RoundSeconds = _ROUND_SECONDS,
    start: Start = "",
    end: End = "",
    devices: Devices = 0,
    observed: Observed = "",
    orient: Orient = None,
    horizon: Horizon = None,
    confidence: Confidence = 0.95,
    as_json: Json = False,
    plot: Plot = None,
) -> None:
    """What kind of unavailability is this, and which assumptions of which methods does it violate?"""
    from fedswe.analysis.description import describe

    check_plot(plot)
    path = Path(what[0])
    of_file = path.is_file() and path.suffix != ".toml"
    log_only = {"--round-seconds": round_seconds, "--start": start, "--end": end, "--devices": devices}
    log_only |= {"--observed": observed, "--orient": orient}
    used = [option for option, value in log_only.items() if value and value != _ROUND_SECONDS]
    require(of_file or not used, f"{', '.join(used)}: for files only, not for a model or a run")
    require(horizon is None or horizon >= 1, f"--horizon {horizon} must be at least 1 round")
    if path.is_dir():
        require(len(what) == 1, "a directory of a run is described as it is: give no KEY=VALUE")
        given = _of_run(path, horizon)
    elif of_file:
        require(len(what) == 1, "a file is described as it is: give --round-seconds, --start and so on, no KEY=VALUE")
        require(horizon is None, "--horizon is for models and runs: give --end for a log")
        given = _of_file(path, round_seconds, start, end, devices, observed, orient)
    else:
        from fedswe.analysis.description import of_scenario

        given = of_scenario(named_scenario(what, horizon))
    deliver(_advised(describe(given, confidence)), as_json, plot)


def _advised(report: Report) -> Report:
    """With what the gym says about the availability that is most alike."""
    from fedswe.gym.advice import advise

    found = advise(report.values)
    if found is None:
        return report
    return replace(report, values={**report.values, "advice": asdict(found)}, notes=[*report.notes, *found.sentences()])


def fit_command(
    trace: Annotated[Path, typer.Argument(help="A log of intervals, or a table with a row per round")],
    round_seconds: RoundSeconds = _ROUND_SECONDS,
    start: Start = "",
    end: End = "",
    devices: Devices = 0,
    observed: Observed = "",
    orient: Orient = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Write the section [availability] of a configuration")
    ] = None,
    as_json: Json = False,
) -> None:
    """Fit daily_markov to a trace, generate clients from it, and say which statistics of the trace they have."""
    from fedswe.analysis.fit import fit_trace
    from fedswe.analysis.report import cells
    from fedswe.experiment.configuration import dump_part
    from fedswe.results.files import write_whole

    require(out is None or out.suffix == ".toml", f"--out must end in .toml, not {out and out.name}")
    require(trace.is_file(), f"there is no file {trace}")
    require(out is None or not out.exists() or not out.samefile(trace), f"{trace} would be overwritten")
    require(0 < round_seconds <= DAY, f"--round-seconds must be above 0 and at most a day, not {round_seconds:g}")
    found = fit_trace(_of_file(trace, round_seconds, start, end, devices, observed, orient), round_seconds)
    section = dump_part("availability", found.model)
    if out is not None:
        write_whole(out, f"# fitted to {trace.name} by fedswe availability fit\n{section}")
    if as_json:
        print_json(found.values)
        return
    print_table(found.title, list(found.rows[0]), cells(found.rows), numbers=True)
    for note in found.notes:
        console.print(note)
    console.print(f"\n{section}" if out is None else f"written   {out}: fedswe run {out} task.clients=...")


def convert_command(
    trace: Annotated[str, typer.Argument(help="A trace of FedScale or FLASH, CSV or Parquet")],
    out: Annotated[Path, typer.Argument(help="The CSV to write: client,start_s,end_s")],
    observed: Observed = "",
) -> None:
    """Write a trace as intervals: OUT, and OUT's name with .observed where it says when devices were observed."""
    from fedswe.availability import interval_log
    from fedswe.results.files import write_whole

    require(out.suffix == ".csv", f"OUT must end in .csv, not {out.name}")
    beside = out.with_suffix(".observed.csv")
    for source in filter(None, (trace, observed)):
        same = [path for path in (out, beside) if path.exists() and path.samefile(source)]
        require(not same, f"{source} would be overwritten: choose another OUT")
    with _as_options():
        log = interval_log.read(trace, observed)
    write_whole(out, interval_log.csv_text(log))
    console.print(f"log       {out}: {log.devices} devices, {len(log.start)} intervals")
    if log.observed is not None:
        write_whole(beside, interval_log.csv_text(log.observed))
        console.print(f"observed  {beside}: for availability.observed_file")


# What messages about an availability call its keys, and what the user of these commands gave.
_OPTIONS = {
    "availability.observed_file": "--observed",
    "availability.file: ": "",
    "availability.round_seconds": "--round-seconds",
    "round_seconds": "--round-seconds",
    "availability.start": "--start",
    "availability.end": "--end",
    "availability.devices": "--devices",
    "availability.orient =": "--orient",
}


@contextmanager
def _as_options() -> Iterator[None]:
    """Errors name options instead of keys of a configuration."""
    try:
        yield
    except FedsweError as error:
        text = str(error)
        for key, option in _OPTIONS.items():
            text = re.sub(rf"(?<![\w/.-]){re.escape(key)}(?![\w/.])", option, text)  # not within the name of a file
        raise FedsweError(text) from None


@_as_options()
def _of_file(
    path: Path, round_seconds: float, start: str, end: str, devices: int, observed: str, orient: Orient
) -> Described:
    """A log of intervals, or else a table with a row per round."""
    from fedswe.analysis.description import of_log, of_table
    from fedswe.availability import interval_log
    from fedswe.availability.round_table import read

    if interval_log.is_log(str(path)):
        require(not orient, f"{path} is a log of intervals: --orient is for tables")
        return of_log(str(path), round_seconds, _time(start), _time(end), devices, observed)
    require(not (start or end or devices or observed), f"{path} is a table of rounds: --start and so on are for logs")
    table = read(str(path), "the file", "", "--key", orient or "")
    table.require_everywhere((table.values == 0) | (table.values == 1), "must hold only 0 and 1")
    return of_table(path.name, table.values.astype(bool))


def _time(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _of_run(path: Path, horizon: int | None) -> Described:
    from fedswe.analysis.description import of_scenario, slots_of_run

    return of_scenario(named_scenario([str(path / "config.toml")], horizon or slots_of_run(path)))
