"""What kind of unavailability is this? Statistics of a trace, a model or a run, and what they mean for the methods."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedswe.analysis.report import Report, Rows, short
from fedswe.analysis.scenario import Scenario
from fedswe.analysis.violations import remarks, violations
from fedswe.availability import DailyMarkov, Intervals
from fedswe.availability.schedule import Bools, Floats
from fedswe.availability.statistics import (
    DAY,
    ECHO_LEVELS,
    QUANTILES,
    LogStatistics,
    Record,
    Runs,
    Statistics,
    beta_with,
    gini,
    quantile,
)
from fedswe.clock import Seconds
from fedswe.errors import require
from fedswe.experiment.configuration import load_text
from fedswe.plotting import BLUE, GREEN, GREY, ORANGE, format_axes
from fedswe.results.run_directory import RunDirectory
from fedswe.theory.assumption import check_confidence, chernoff_lower, chernoff_upper

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SIZE = (6.9, 5.0)
_RARE = 0.05
_ROUNDS, _DEVICES = 2_000_000, 5_000_000  # at most
_GAPS = 0.1  # share of the numbers up to the largest id that may be missing and are then taken as devices


@dataclass(frozen=True, eq=False)
class Described:
    """A record, and where it comes from a log, the log's statistics in seconds."""

    name: str
    record: Record
    seconds: LogStatistics | None = None
    probabilities: Floats | None = None  # [rounds, m], of a model with independent rounds
    notes: Sequence[str] = ()


# where a record comes from: a log, a model or a run, a table -----------------------------------------------------
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
    found = LogStatistics(log, origin, origin + rounds * round_seconds, devices)
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


# what it says --------------------------------------------------------------------------------------------------
def describe(given: Described, confidence: float = 0.95) -> Report:
    check_confidence(confidence)
    found = Statistics(given.record)
    share = found.share if given.seconds is None else given.seconds.share
    values: dict[str, Any] = {
        "name": given.name,
        "clients": found.clients,
        "rounds": found.rounds,
        "round_seconds": given.record.round_seconds,
        "mean_availability": float(np.nanmean(share)),
        "per_client": _quantiles(share),
        "never_available": int((share == 0).sum()),
        "never_in_a_round": int((found.share == 0).sum()),
        "never_observed": int(np.isnan(share).sum()),
        "below_5_percent": float((share[np.isfinite(share)] < _RARE).mean()),
        "gini": gini(share),
        "beta_fit": beta_with(float(np.nanmean(share)), float(np.nanvar(share))),
        "population": {"smallest": float(np.nanmin(found.population)), "largest": float(np.nanmax(found.population))},
        "empty_rounds": int((found.population == 0).sum()),
        "stays": found.stays,
        "returns": found.returns,
        "autocorrelation": dict(zip(map(str, found.lags), found.correlation.tolist(), strict=True)),
        "pairwise_correlation": found.pairwise,
        "echo": {
            "mean": found.echo_mean,
            **{_level(q): e for q, e in zip(ECHO_LEVELS, found.echo_quantiles(), strict=True)},
        },
        "sessions": _lengths(found, "sessions") if given.seconds is None else _seconds(given.seconds.sessions),
        "outages": _lengths(found, "outages") if given.seconds is None else _seconds(given.seconds.outages),
        "windows": _windows(found, confidence),
        "fedavg": {"distance": found.fedavg_distance, "effective_clients": found.effective_clients},
    }
    if given.seconds is not None:
        values |= {
            "sessions_per_day": _quantiles(given.seconds.per_day),
            "sessions_below_a_minute": given.seconds.short,
            "longest_outage_days": _quantiles(given.seconds.longest_outage / DAY),
            "by_hour": given.seconds.by_hour,
        }
    violated = violations(found, values["never_in_a_round"], given.probabilities, given.seconds)
    values |= {"violations": [asdict(one) for one in violated], "remarks": remarks(found)}
    tables = {**_overview(values, given.seconds is not None), **_windows_table(values)}
    sentences = [one.sentence() for one in violated] or ["no assumption that was checked is clearly violated"]
    notes = [*given.notes, *sentences, *values["remarks"]]
    return Report(values, lambda figure: _draw(figure, found, share, given.seconds), _SIZE, tables, notes)


# numbers -----------------------------------------------------------------------------------------------------
def _level(level: float) -> str:
    return "max" if level == 1 else f"p{100 * level:g}"


def _quantiles(values: Floats) -> dict[str, float]:
    known = values[np.isfinite(values)]
    found = np.quantile(known, QUANTILES) if known.size else np.full(len(QUANTILES), np.nan)
    return {_level(level): float(value) for level, value in zip(QUANTILES, found, strict=True)}


def _lengths(found: Statistics, what: str) -> dict[str, Any]:
    counts = getattr(found, what)
    return {
        "unit": "rounds",
        "number": int(counts.sum()),
        **{_level(q): float(quantile(counts, q)) if counts.any() else math.nan for q in QUANTILES},
    }


def _seconds(lengths: Floats) -> dict[str, Any]:
    return {"unit": "seconds", "number": len(lengths), **_quantiles(lengths)}


def _windows(found: Statistics, confidence: float) -> list[dict[str, float]]:
    """delta(P) with Chernoff's limits for independent rounds, Bonferroni over clients and windows."""
    ever = max(1, int(found.ever.sum()))
    rows = []
    for window, delta, seen in zip(found.windows, found.smallest.tolist(), found.judged_on.tolist(), strict=True):
        alpha = (1 - confidence) / (2 * ever * (found.rounds // window))
        limits = [float(limit(delta, seen, alpha)) if seen else math.nan for limit in (chernoff_lower, chernoff_upper)]
        rows.append({"rounds": window, "delta": delta, "lower": limits[0], "upper": limits[1]})
    return rows


# words -------------------------------------------------------------------------------------------------------
def _overview(values: dict[str, Any], timed: bool) -> dict[str, Rows]:
    def spread(of: dict[str, float], scale: float = 1.0) -> str:
        return " / ".join(short(of[_level(q)] / scale) for q in QUANTILES)

    rows = [
        ("clients, rounds", f"{values['clients']}, {values['rounds']}"),
        ("mean availability", short(values["mean_availability"])),
        ("per client, 5/25/50/75/95 %", spread(values["per_client"])),
        ("never available", f"{values['never_available']} ({values['never_available'] / values['clients']:.1%})"),
        ("in no round", str(values["never_in_a_round"])),
        ("available below 5 %", f"{values['below_5_percent']:.1%}"),
        ("Gini index over clients", short(values["gini"])),
        ("Beta(a, b) with this mean and variance", ", ".join(short(x) for x in values["beta_fit"] or ()) or "—"),
        ("available at once, smallest to largest share", " to ".join(short(x) for x in values["population"].values())),
        ("rounds without a client", str(values["empty_rounds"])),
        ("P(A | A), P(A | not A)", f"{short(values['stays'])}, {short(values['returns'])}"),
        (
            "autocorrelation after so many rounds",
            ", ".join(f"{k}: {short(v)}" for k, v in values["autocorrelation"].items()),
        ),
        ("mean correlation of two clients", short(values["pairwise_correlation"])),
        ("echo mean / " + " / ".join(map(_level, ECHO_LEVELS)), " / ".join(short(v) for v in values["echo"].values())),
    ]
    unit, scale = ("minutes", 60.0) if timed else ("rounds", 1.0)
    rows += [
        (f"session, {unit}, 5/25/50/75/95 %", spread(values["sessions"], scale)),
        (f"outage between sessions, {unit}, 5/25/50/75/95 %", spread(values["outages"], scale)),
    ]
    if timed:
        rows += [
            ("sessions below a minute", f"{values['sessions_below_a_minute']:.1%}"),
            ("sessions per client and day, 5/25/50/75/95 %", spread(values["sessions_per_day"])),
            ("longest outage of a client, days, 5/25/50/75/95 %", spread(values["longest_outage_days"])),
        ]
    rows.append(
        (
            "FedAvg's weights: distance from equal, effective clients",
            f"{short(values['fedavg']['distance'])}, {short(values['fedavg']['effective_clients'])}",
        )
    )
    return {values["name"]: [{"what": what, "value": value} for what, value in rows]}


def _windows_table(values: dict[str, Any]) -> dict[str, Rows]:
    titles = ("window P, rounds", "delta(P)", "lower limit", "upper limit")
    rows = [dict(zip(titles, row.values(), strict=True)) for row in values["windows"]]
    return {"smallest share of a window in which a client that is ever available is there": rows}


# figure ------------------------------------------------------------------------------------------------------
def _draw(figure: Figure, found: Statistics, share: Floats, log: LogStatistics | None) -> None:
    (clients, time), (echoes, day) = figure.subplots(2, 2)
    clients.hist(share[np.isfinite(share)], bins=np.linspace(0, 1, 26), color=BLUE)
    format_axes(clients, "availability of the clients", "share of the time", "clients")
    time.plot(found.population, color=GREEN, linewidth=0.8)
    time.set_ylim(bottom=0)
    format_axes(time, "available at once", "round t", "share of the clients")
    left = 1.0 - np.cumsum(found.echoes) / max(1, found.echoes.sum())
    shown = max(2, int(np.flatnonzero(left > 1e-9).max(initial=0)) + 2)
    echoes.plot(np.maximum(left[:shown], 1e-9), color=ORANGE, drawstyle="steps-post")
    echoes.set_yscale("log")
    echoes.set_ylim(max(1e-6, float(left[left > 1e-9].min(initial=1.0)) / 2), 1.5)
    format_axes(echoes, "echo of the reports", "echo r", "share with a larger echo")
    if log is not None:
        day.step(np.arange(25), np.append(log.by_hour, log.by_hour[-1]), where="post", color=GREY)
        day.set_ylim(bottom=0)
        format_axes(day, "by hour of the log's clock", "hour", "share of the clients")
    else:
        counts = found.outages
        day.plot(np.arange(len(counts)), counts, color=GREY)
        format_axes(day, "outages", "rounds", "number")
