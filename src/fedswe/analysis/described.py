"""Where a description gets its record from: a file of intervals, a table of rounds, an availability model, or a run."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from fedswe.analysis.description import Described
from fedswe.analysis.scenario import Scenario
from fedswe.availability import DailyMarkov, Intervals
from fedswe.availability.log_statistics import log_statistics
from fedswe.availability.runs import Runs
from fedswe.availability.schedule import Bools
from fedswe.availability.statistics import DAY, Record
from fedswe.clock import Seconds
from fedswe.errors import require
from fedswe.experiment.configuration import load_text
from fedswe.results.run_directory import RunDirectory

_ROUNDS, _DEVICES = 2_000_000, 5_000_000  # at most
_GAPS = 0.1  # share of the numbers up to the largest id that may be missing and are then taken as devices


def of_log(
    path: str, round_seconds: float, start: float | str, end: float | str, devices: int, observed_file: str
) -> Described:
    """Every device of a log is a client; a device is available in a round if it is online at its middle."""
    notes = []
    log = Intervals(path, observed_file=observed_file).log()
    if start == "" and not log.dated and 0 <= log.start.min() < DAY:
        start = 0.0
    if not devices:
        devices = log.devices
        ids = log.ids
        if ids is not None and log.observed is None and ids.min() in (0, 1):
            numbered = int(ids.max() - ids.min() + 1)
            if devices < numbered <= devices / (1 - _GAPS):
                notes.append(
                    f"{numbered - devices} of the ids {ids.min()} to {ids.max()} are missing: taken as devices that "
                    "were never available (--devices sets their number)"
                )
                devices = numbered
    model = Intervals(
        path,
        round_seconds=round_seconds,
        start=start,
        end=end,
        during="middle",
        mapping="first",
        devices=devices,
        observed_file=observed_file,
    )
    rounds = model.rounds()
    assert rounds is not None
    require(rounds <= _ROUNDS, f"{path} has {rounds:,} rounds, more than {_ROUNDS:,}: raise --round-seconds")
    require(devices <= _DEVICES, f"{devices:,} devices are too many: at most {_DEVICES:,} are described")
    available, observed = model.runs(devices, 0)
    require(bool(available.count.any()), f"{path}: no device is online at the middle of a round: shorten the rounds")
    origin = model.begins()
    found = log_statistics(log, origin, origin + rounds * round_seconds, devices)
    population = available.per_round / devices
    usual = float(np.quantile(population, 0.99))
    for share, where, option in ((found.at_start, "beginning", "--start"), (found.at_end, "end", "--end")):
        if share > min(2 * usual, (1 + usual) / 2) and usual < 1:
            notes.append(
                f"{share:.0%} of the devices are available at the very {where}, at most {usual:.0%} in 99 % of the "
                f"rounds: if the log is padded there, leave that time out with {option}"
            )
    return Described(Path(path).name, Record(available, observed, round_seconds), found, notes=notes)


def of_scenario(clients: Scenario) -> Described:
    """The availability of an experiment, drawn with its seed."""
    availability, horizon = clients.experiment.availability, clients.horizon
    if isinstance(availability, Intervals) and not availability.wrap:
        available, observed = availability.runs(clients.m, clients.experiment.seed)
        seen = None if observed is None else observed.until(horizon)
        record = Record(available.until(horizon), seen, availability.round_seconds)
    else:
        seconds = availability.round_seconds if isinstance(availability, DailyMarkov) else None
        record = Record(Runs.drawn(clients.schedule.sample, clients.m, horizon), None, seconds)
    require(bool(record.available.count.any()), f"{clients.name}: no client is available in {horizon} rounds")
    known = clients.prob if clients.known == "probabilities" else None
    return Described(clients.name, record, probabilities=known)


def slots_of_run(directory: Path) -> int | None:
    """How many rounds of its availability a run with simulated time has seen; None for another run."""
    run = RunDirectory(directory)
    value = load_text(run.config(), str(directory / "config.toml"))
    if not isinstance(value.clock, Seconds) or not (directory / "history.csv").is_file():
        return None
    known = value.availability.rounds()
    length = value.availability.round_seconds if isinstance(value.availability, Intervals) else value.clock.slot_seconds
    seen = max(1, math.ceil(run.history().last["simulated_seconds"] / length))
    return seen if known is None else min(seen, known)


def of_table(name: str, available: Bools) -> Described:
    """A row per round, a column per client."""
    rounds, m = available.shape
    require(bool(available.any()), f"{name}: no client is available in any of the {rounds} rounds")
    return Described(name, Record(Runs.drawn(lambda t: available[t], m, rounds)))
