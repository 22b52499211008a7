"""fedswe availability: describe a trace, a model or a run; convert a trace."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedswe.cli.arguments import Json
from fedswe.cli.console import console, print_json, print_table
from fedswe.cli.theory import Confidence, Horizon, named_scenario
from fedswe.errors import FedsweError, require
from fedswe.registry import name_of, names

if TYPE_CHECKING:
    from fedswe.analysis.description import Described

_ROUND_SECONDS = 600.0
_ROUNDS, _CLIENTS = 500, 100  # of the comparison that is proposed, at most
Orient = Literal["rounds", "clients"]


def availability_command(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|MODEL|RUN [KEY=VALUE]...",
            help="A log, a trace or a table of rounds; an availability such as sine; or the directory of a run",
        ),
    ],
    round_seconds: Annotated[float, typer.Option(help="Length of a round, for files")] = _ROUND_SECONDS,
    start: Annotated[str, typer.Option(help="When round 0 begins: seconds or a timestamp, as in the log")] = "",
    end: Annotated[str, typer.Option(help="When the last round must have ended, likewise")] = "",
    devices: Annotated[int, typer.Option(help="Size of the population, if the log omits devices never online")] = 0,
    observed: Annotated[str, typer.Option(metavar="FILE", help="Log of the times in which devices were observed")] = "",
    orient: Annotated[Orient | None, typer.Option(help="What the rows of a table are")] = None,
    convert: Annotated[Path | None, typer.Option(metavar="FILE.csv", help="Write a trace as intervals")] = None,
    horizon: Horizon = None,
    confidence: Confidence = 0.95,
    everything: Annotated[bool, typer.Option("--all", help="Print all statistics, and what is violated")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="The page; default, of a file: its name with -devices.html")
    ] = None,
    as_json: Json = False,
) -> None:
    """Who is available when, what that does to FedAvg, and which rule to start with; also as a page."""
    from fedswe.analysis.description import describe, of_scenario, slots_of_run
    from fedswe.analysis.report import cells
    from fedswe.gym.advice import advise
    from fedswe.report.devices import write_devices

    path = Path(what[0])
    require(out is None or out.suffix in (".html", ".htm"), f"--out {out}: the name must end in .html")
    of_file = path.is_file() and path.suffix != ".toml"
    log_only = {"--round-seconds": round_seconds, "--start": start, "--end": end, "--devices": devices}
    log_only |= {"--observed": observed, "--orient": orient, "--convert": convert}
    used = [option for option, value in log_only.items() if value and value != _ROUND_SECONDS]
    require(of_file or not used, f"{', '.join(used)}: for files only, and {path} is none")
    require(round_seconds > 0, f"--round-seconds must be positive, not {round_seconds:g}")
    changeable = not (of_file or path.is_dir())
    require(len(what) == 1 or changeable, "a file or a run is described as it is: give no KEY=VALUE")
    require(horizon is None or not of_file, "--horizon is for models and runs: give --end for a log")
    if convert is not None:
        _convert(str(path), convert, observed)
        return
    page = Path(f"{path.stem}-devices.html") if out is None and of_file and not as_json else out
    if path.is_dir():
        rounds = slots_of_run(path) if horizon is None else horizon
        given = of_scenario(named_scenario([str(path / "config.toml")], rounds))
    elif of_file:
        given = _of_file(path, round_seconds, start, end, devices, observed, orient)
    else:
        given = of_scenario(named_scenario(what, horizon))
    description = describe(given, confidence)
    found = advise(description.values)  # what the gym says about the availability that is most alike
    rounds = min(given.record.rounds, _ROUNDS)
    command = ["fedswe", "compare", *_settings(what, given), *found.words(rounds)]
    lines = [*{**description.summary, **found.summary(), "try": shlex.join(command)}.items()]
    lines += [("check", note) for note in given.notes]
    if not as_json:
        for label, text in lines:
            console.print(f"{label:<9} {text}")
        for title, rows in description.tables.items() if everything else ():
            print_table(title, *cells(rows), numbers=True)
        for note in description.notes if everything else ():
            console.print(note)
    if page is not None:
        write_devices(page, given, description.values, lines, found)
    if as_json:
        print_json({**description.values, "advice": asdict(found)})
    elif page is not None:
        console.print(f"page      {page}{'' if everything else ' (all statistics: --all)'}")


def _settings(what: list[str], given: Described) -> list[str]:
    """The words that give other commands these clients; of many devices a sample."""
    from fedswe.availability import Intervals
    from fedswe.experiment.experiment import changed_parameters

    model, m = given.model, given.record.m
    if model is None:
        named = {word: f"availability.name={word}" for word in names("availability")}
        named |= {word: str(Path(word, "config.toml")) for word in what if Path(word).is_dir()}
        return [named.get(word, word) for word in what if not word.startswith("algorithm.")]
    if isinstance(model, Intervals):
        model, m = replace(model, mapping="sample"), min(m, _CLIENTS)
    changed = changed_parameters(model).items()
    words = [f"availability.{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in changed]
    return [f"availability.name={name_of('availability', type(model))}", *words, f"task.clients={m}"]


def _convert(trace: str, out: Path, observed: str) -> None:
    """Write a trace as intervals: OUT, and OUT's name with .observed where it says when devices were observed."""
    from fedswe.availability.log import read_log
    from fedswe.results.files import write_whole

    require(out.suffix == ".csv", f"--convert must end in .csv, not {out.name}")
    beside = out.with_suffix(".observed.csv")
    for source in filter(None, (trace, observed)):
        same = [path for path in (out, beside) if path.exists() and path.samefile(source)]
        require(not same, f"{source} would be overwritten: choose another file for --convert")
    with _as_options():
        log = read_log(trace, observed)
    write_whole(out, log.to_csv())
    console.print(f"log       {out}: {log.devices} devices, {len(log.start)} intervals")
    if log.observed is not None:
        write_whole(beside, log.observed.to_csv())
        console.print(f"observed  {beside}: for availability.observed_file")


@contextmanager
def _as_options() -> Iterator[None]:
    """Errors name options instead of keys of a configuration."""
    try:
        yield
    except FedsweError as error:
        text = str(error).removeprefix("availability.file: ")

        def option(found: re.Match[str]) -> str:
            return "--" + found[1].removesuffix("_file").replace("_", "-")

        # Not within the name of a file.
        raise FedsweError(re.sub(r'(?<![\w/.-])availability\.(\w+)(?: =(?= "))?(?![\w/.])', option, text)) from None


@_as_options()
def _of_file(
    path: Path, round_seconds: float, start: str, end: str, devices: int, observed: str, orient: Orient | None
) -> Described:
    """A log of intervals, or else a table with a row per round."""
    from fedswe.analysis.description import of_log, of_table
    from fedswe.availability import Mask
    from fedswe.availability.log import is_log
    from fedswe.availability.table import read_table

    if is_log(str(path)):
        require(not orient, f"{path} is a log of intervals: --orient is for tables")
        return of_log(str(path), round_seconds, _time(start), _time(end), devices, observed)
    require(not (start or end or devices or observed), f"{path} is a table of rounds: --start and so on are for logs")
    table = read_table(str(path), "the file", "", "numpy.save in a file of its own", orient or "")
    known = (table.values == 0) | (table.values == 1)
    table.require_everywhere(known, "must hold only 0 and 1, or have the header of a log")
    return of_table(path.name, table.values.astype(bool), Mask(str(path), orient=orient or ""))


def _time(text: str) -> float | str:
    with suppress(ValueError):
        return float(text)
    return text
