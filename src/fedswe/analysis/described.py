"""Where a description gets its record from: a file of intervals, a table of rounds, an availability model, or a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedswe.analysis.description import Described
from fedswe.analysis.scenario import Scenario
from fedswe.availability import Intervals
from fedswe.availability.log_statistics import log_statistics
from fedswe.availability.runs import Runs
from fedswe.availability.schedule import Bools
from fedswe.availability.statistics import DAY, Record
from fedswe.errors import require

_GAPS = 0.1  # share of the numbers up to the largest id that may be missing and are then taken as devices


def of_log(
    path: str, round_seconds: float, start: float | str, end: float | str, devices: int, observed_file: str
) -> Described:
    """Every device of a log is a client; a device is available in a round if it is online at its middle."""
    notes = []
    whole = Intervals(path, observed_file=observed_file)
    log = whole.log()
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
    available, observed = model.runs(devices, 0)
    require(bool(available.count.any()), f"{path}: no device is online at the middle of a round: shorten the rounds")
    origin = model.begins()
    table = Record(available, observed, round_seconds)
    rounds = available.rounds
    found = log_statistics(log, origin, origin + rounds * round_seconds, devices)
    population = available.per_round / devices
    for share, where, option in ((found.at_start, "beginning", "--start"), (found.at_end, "end", "--end")):
        if share > 2 * float(np.quantile(population, 0.99)):
            notes.append(
                f"{share:.0%} of the devices are available at the {where}, at most {population.max():.0%} in a round: "
                f"if the log is padded there, leave that time out with {option}"
            )
    return Described(Path(path).name, table, found, notes)


def of_scenario(clients: Scenario) -> Described:
    """The availability of an experiment, drawn with its seed."""
    availability, seed = clients.experiment.availability, clients.experiment.seed
    runs = Runs.drawn(clients.schedule.sample, clients.m, clients.horizon)
    require(bool(runs.count.any()), f"{clients.name}: no client is available in {clients.horizon} rounds")
    if isinstance(availability, Intervals) and not availability.wrap:
        whole, observed = availability.runs(clients.m, seed)
        if whole.rounds == clients.horizon:
            return Described(clients.name, Record(whole, observed, availability.round_seconds), None)
    return Described(clients.name, Record(runs), None)


def of_table(name: str, available: Bools) -> Described:
    """A row per round, a column per client."""
    rounds, m = available.shape
    return Described(name, Record(Runs.drawn(lambda t: available[t], m, rounds)), None)
