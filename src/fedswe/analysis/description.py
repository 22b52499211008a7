"""What kind of unavailability is this? Statistics of a trace, a model or a run, and what they mean for the methods."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fedswe.analysis.report import frame, short, text
from fedswe.analysis.scenario import Scenario, scenario
from fedswe.availability import Availability, DailyMarkov, Intervals, Mask
from fedswe.availability.log import is_log
from fedswe.availability.schedule import Bools, Floats, Schedule
from fedswe.availability.statistics import (
    DAY,
    ECHO_LEVELS,
    QUANTILES,
    LogStatistics,
    Record,
    Statistics,
    beta_with,
    gini,
    quantile,
)
from fedswe.clock import Seconds
from fedswe.engine.base import availability_of
from fedswe.errors import printable, require
from fedswe.experiment.configuration import load_text
from fedswe.experiment.experiment import Experiment
from fedswe.registry import name_of
from fedswe.results.display import Displayed
from fedswe.results.run_directory import RunDirectory
from fedswe.theory.assumption import check_confidence, chernoff_lower, chernoff_upper

_RARE = 0.05
_CELLS = 150_000_000  # devices times rounds, at most
_GAPS = 0.1  # share of the numbers up to the largest id that may be missing and are then taken as devices

# beyond which an assumption is violated
_CORRELATED = 0.1  # of a client with itself in later rounds
_TOGETHER = 0.02  # mean of two clients
_VARIES = 1.3  # largest over smallest, over the day or over the rounds
_UNEQUAL = 0.1  # distance of FedAvg's weights from equal ones
_LONG_ECHO = 20  # rounds, of one report in a hundred
_SURE = 4.0  # standard errors
_DAILY_RATIO = 3.0
_ALIKE = 0.05  # distance of FedAvg's weights from equal ones
_DAYS = 3  # that a pattern over the day must have been seen, not to be chance


@dataclass(frozen=True, eq=False)
class Described:
    """A record, and where it comes from a log, the log's statistics in seconds."""

    name: str
    record: Record
    seconds: LogStatistics | None = None
    probabilities: Floats | None = None  # [rounds, m], of a model with independent rounds
    notes: Sequence[str] = ()  # on input that may be wrong
    labels: Sequence[str] = ()  # the ids of the first devices; those of others are not known
    dated: bool = False  # whether seconds are those since 1970
    model: Availability | None = None  # that reads the file

    @cached_property
    def statistics(self) -> Statistics:
        return Statistics(self.record)

    def client(self, i: int) -> str:
        if self.seconds is None:
            return f"client {i}"
        return f"device {printable(self.labels[i])[:40]}" if i < len(self.labels) else "a device that the log omits"

    @cached_property
    def bias(self) -> str:
        """Whom FedAvg counts most and least, of those that ever come."""
        found = self.statistics
        weight, share = found.weight * found.clients, np.nan_to_num(found.share)
        most, least = int(weight.argmax()), int(np.where(weight > 0, weight, np.inf).argmin())
        if found.fedavg_distance < _ALIKE:
            return f"counts almost all alike, {weight[least]:.3g} to {weight[most]:.3g} times their fair weight"
        first, last = (f"{self.client(i)} (there {percent(share[i])} of the time)" for i in (most, least))
        return f"counts {first} {weight[most]:.3g} times its fair weight, {last} {weight[least]:.2g} times"


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
        path, round_seconds=round_seconds, start=start, end=end, during="middle", mapping="first", devices=devices,
        observed_file=observed_file,
    )  # fmt: skip
    origin, rounds = model.window(log)
    require(
        rounds * devices <= _CELLS,
        f"{path}: {devices:,} devices in {rounds:,} rounds are too many: raise --round-seconds",
    )
    available, observed = model.rows(devices, 0)
    require(bool(available.any()), f"{path}: no device is online at the middle of a round: shorten the rounds")
    found = LogStatistics(log, origin, origin + rounds * round_seconds, devices)
    population = available.sum(axis=1) / devices
    usual = float(np.quantile(population, 0.99))
    for share, where, option in ((found.at_start, "beginning", "--start"), (found.at_end, "end", "--end")):
        if share > min(2 * usual, (1 + usual) / 2) and usual < 1:
            notes.append(
                f"{share:.0%} of the devices are available at the very {where}, at most {usual:.0%} in 99 % of the "
                f"rounds: if the log is padded there, leave that time out with {option}"
            )
    name, labels = printable(Path(path).name), [str(label) for label in log.labels.tolist()]
    return Described(name, Record(available, observed, round_seconds), found, None, notes, labels, log.dated, model)


def of_scenario(clients: Scenario) -> Described:
    """The availability of an experiment, drawn with its seed."""
    record = record_of(clients.experiment, clients.schedule, clients.horizon)
    require(bool(record.available.any()), f"{clients.name}: no client is available in {clients.horizon} rounds")
    known = clients.prob if clients.known == "probabilities" else None
    return Described(clients.name, record, probabilities=known)


def record_of(experiment: Experiment, schedule: Schedule, horizon: int) -> Record:
    availability = experiment.availability
    if isinstance(availability, Intervals) and not availability.wrap:
        available, observed = availability.rows(schedule.m, experiment.seed)
        seen = None if observed is None else observed[:horizon]
        return Record(available[:horizon], seen, availability.round_seconds)
    seconds = availability.round_seconds if isinstance(availability, DailyMarkov) else None
    return Record(availability_of(schedule, horizon), None, seconds)


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


def of_table(name: str, available: Bools, model: Availability | None = None) -> Described:
    """A row per round, a column per client."""
    require(bool(available.any()), f"{name}: no client is available in any of the {len(available)} rounds")
    return Described(name, Record(available), model=model)


# what it says --------------------------------------------------------------------------------------------------
@dataclass(frozen=True, repr=False)
class Description(Displayed):
    values: dict[str, Any]
    summary: dict[str, str]  # the answer, by its labels
    tables: dict[str, pd.DataFrame]  # by title
    notes: list[str]  # what is violated, and remarks

    def _shown(self) -> tuple[dict[str, pd.DataFrame], list[str]]:
        return {}, [f"{label}: {text}" for label, text in self.summary.items()]


def describe(
    what: Described | Experiment | Availability | str | Path, confidence: float = 0.95, round_seconds: float = 600.0
) -> Description:
    """Who is available when, and which assumptions of which methods that violates.

    `what` is a log or a table of rounds, an experiment, or an availability or its label, such as "sine:period=10".
    `round_seconds` is the length of a round, for logs.
    """
    file, given = isinstance(what, str | Path) and Path(what).is_file(), what
    if file and is_log(str(what)):
        given = of_log(str(what), round_seconds, "", "", 0, "")
    elif not isinstance(what, Described):
        model: Any = Mask(str(what)) if file else str(what) if isinstance(what, Path) else what
        value = what if isinstance(what, Experiment) else Experiment(availability=model)
        given = of_scenario(scenario(value, name_of("availability", type(value.availability)), None, value is what))
    assert isinstance(given, Described)
    check_confidence(confidence)
    found, log = given.statistics, given.seconds
    share = found.share if log is None else log.share
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
        "echo": {"mean": found.echo_mean, **{_level(q): quantile(found.echoes, q) for q in ECHO_LEVELS}},
        "sessions": _lengths(found.sessions) if log is None else _seconds(log.sessions),
        "outages": _lengths(found.outages) if log is None else _seconds(log.outages),
        "fedavg": {"distance": found.fedavg_distance, "effective_clients": found.effective_clients},
    }
    if log is not None:
        values |= {
            "sessions_per_day": _quantiles(log.per_day),
            "sessions_below_a_minute": log.short,
            "longest_outage_days": _quantiles(log.longest_outage / DAY),
        }
    overview = frame(
        [{"what": _NAMES.get(key, key.replace("_", " ")), "value": _told(value)} for key, value in values.items()]
    )
    windows = _windows(found, confidence)
    tables = {
        given.name: overview,
        "delta: in the worst window of P rounds, the rarest client was there this share of the time": windows,
    }
    violated = list(violations(found, given.probabilities, log))
    values |= {"windows": windows, "by_hour": None if log is None else log.by_hour}
    values |= {"violations": [asdict(one) for one in violated], "remarks": remarks(found)}
    sentences = [
        f"not met: {one.assumption}. Measured: {one.measured}. Concerns: {one.methods}." for one in violated
    ] or ["no assumption that was checked is clearly violated"]
    notes = [*sentences, *values["remarks"]]
    return Description(values, _summary(given, values), tables, notes)


def _summary(given: Described, values: Mapping[str, Any]) -> dict[str, str]:
    found, few, many = given.statistics, *(percent(values["per_client"][level]) for level in ("p5", "p95"))
    length = f" of {duration(given.record.round_seconds)}" if given.record.round_seconds else ""
    mean = found.clients * float(np.nanmean(found.population))
    there = f"{mean:,.0f}" if mean >= 1000 else f"{mean:.3g}"
    never = f", {values['never_in_a_round']:,} in none" if values["never_in_a_round"] else ""
    empty = f", nobody in {percent(values['empty_rounds'] / found.rounds)} of them" if values["empty_rounds"] else ""
    equal = f"Gini index {values['gini']:.2f} (0: all are there equally often, 1: one has all)"
    after, pair = values["autocorrelation"].get("1", math.nan), found.pairwise
    other = "" if math.isnan(pair) else f"; of two of them {pair:.2f} (0: each for itself, 1: all together)"
    who, size = "devices" if given.seconds else "clients", f"{found.clients:,} in {found.rounds:,} rounds{length}"
    return {
        who: f"{size}: {there} are there in a round{never}{empty}",
        "unequal": f"{equal}; the rarest twentieth at most {few} of the time, the most present one {many} or more",
        "related": f"correlation with oneself a round later {short(round(after, 2))} (0: chance, 1: for ever){other}",
        "FedAvg": given.bias,
    }


def percent(share: float) -> str:
    return f"{100 * share:.{2 + (share > 0.99)}g} %"


def duration(seconds: float) -> str:
    unit, size = next((u for u in (("d", DAY), ("h", 3600.0), ("min", 60.0)) if seconds >= u[1]), ("s", 1.0))
    return f"{seconds / size:.3g} {unit}"


_NAMES = {"stays": "P(A | A)", "returns": "P(A | not A)", "gini": "Gini index", "fedavg": "FedAvg's weights"}


def _told(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {text(item)}" for name, item in value.items())
    return ", ".join(map(text, value)) if isinstance(value, tuple) else text(value)


def _level(level: float) -> str:
    return "max" if level == 1 else f"p{100 * level:g}"


def _quantiles(values: Floats) -> dict[str, float]:
    known = values[np.isfinite(values)]
    found = np.quantile(known, QUANTILES) if known.size else np.full(len(QUANTILES), np.nan)
    return {_level(level): float(value) for level, value in zip(QUANTILES, found, strict=True)}


def _lengths(counts: npt.NDArray[np.int64]) -> dict[str, Any]:
    quantiles = {_level(q): float(quantile(counts, q)) if counts.any() else math.nan for q in QUANTILES}
    return {"unit": "rounds", "number": int(counts.sum()), **quantiles}


def _seconds(lengths: Floats) -> dict[str, Any]:
    return {"unit": "seconds", "number": len(lengths), **_quantiles(lengths)}


def _windows(found: Statistics, confidence: float) -> pd.DataFrame:
    """delta(P) with Chernoff's limits for independent rounds, Bonferroni over clients and windows."""
    ever = max(1, int((found.share > 0).sum()))
    rows = []
    for window, delta, seen in zip(found.windows, found.smallest.tolist(), found.judged_on.tolist(), strict=True):
        alpha = (1 - confidence) / (2 * ever * (found.rounds // window))
        limits = [float(limit(delta, seen, alpha)) if seen else math.nan for limit in (chernoff_lower, chernoff_upper)]
        rows.append({"rounds": window, "delta": delta, "lower": limits[0], "upper": limits[1]})
    return frame(rows)


# which assumptions of which methods are violated, beyond the noise of the record ---------------------------------
@dataclass(frozen=True)
class Violation:
    assumption: str
    measured: str
    methods: str


def violations(found: Statistics, probabilities: Floats | None, log: LogStatistics | None) -> Iterator[Violation]:
    """`probabilities` [rounds, m] are those of a model with independent rounds."""
    never = int((found.share == 0).sum())
    if never:
        yield Violation(
            "every client is available now and then",
            f"{never} of {found.clients} clients are available in no round",
            "all methods: they learn nothing from these clients, whose data are part of the average that is minimised",
        )
    yield from _unequal(found)
    if probabilities is not None:
        yield from _changing(probabilities)
    else:
        yield from _dependent(found)
        yield from _daily(found, log)
        yield from _together(found)


def remarks(found: Statistics) -> list[str]:
    """What is no assumption of a method, but matters to it."""
    said = []
    high, longest = quantile(found.echoes, 0.99), quantile(found.echoes, 1.0)
    if high > _LONG_ECHO:
        said.append(
            f"long echoes: one report in a hundred comes {high} rounds or more after the one before it, the longest "
            f"{longest}. FedSWE and FedAU multiply such a report; MIFA, FedVARP and SCAFFOLD reuse what is as old."
        )
    if math.isnan(found.pairwise) and found.clients > 1:
        said.append("not checked: whether clients come and go together (not all were observed in every round)")
    return said


def _effective_rounds(found: Statistics) -> float:
    """The number of independent rounds that say as much about a mean as these, if dependence fades geometrically."""
    first = float(found.correlation[0]) if len(found.lags) and np.isfinite(found.correlation[0]) else 0.0
    kept = min(max(first, 0.0), 0.99)
    return found.rounds * (1 - kept) / (1 + kept)


def _unequal(found: Statistics) -> Iterator[Violation]:
    share = found.share[np.isfinite(found.share)]
    mean = float(share.mean())
    # The variance of the shares of equal clients, and how far it strays.
    noise = mean * (1 - mean) / _effective_rounds(found) * (1 + _SURE * math.sqrt(2 / max(1, len(share) - 1)))
    if found.fedavg_distance > _UNEQUAL and float(share.var()) > noise:
        yield Violation(
            "clients are available equally often",
            f"FedAvg weighs {found.clients} clients like {found.effective_clients:.1f} equal ones; the distance of its "
            f"weights from equal ones is {found.fedavg_distance:.2f}",
            "FedAvg and gFedAvg over active clients, which minimise another average than that over all clients",
        )


def _changing(probabilities: Floats) -> Iterator[Violation]:
    over_time = probabilities.mean(axis=1)
    own = probabilities.max(axis=0) > _VARIES * probabilities.min(axis=0)
    if own.any():
        yield Violation(
            "probabilities do not change over time",
            f"those of {int(own.sum())} clients do; their mean over clients goes from {over_time.min():.2f} to "
            f"{over_time.max():.2f}",
            "FedAU and F3AST, which estimate one probability per client",
        )


def _dependent(found: Statistics) -> Iterator[Violation]:
    noise = _SURE / math.sqrt(found.clients * found.rounds)
    pairs = zip(found.lags, found.correlation.tolist(), strict=True)
    strong = [(lag, r) for lag, r in pairs if abs(r) > max(_CORRELATED, noise)]
    if strong:
        lag, value = max(strong, key=lambda pair: abs(pair[1]))
        after = "in the next round" if lag == 1 else f"{lag} rounds later"
        yield Violation(
            "rounds are independent, with constant probabilities",
            f"a client's availability correlates with its own {after} by {value:.2f}",
            "FedAU, F3AST and FedAvg with known p, which take it so; FedSWE's analysis, if rounds depend on each other "
            "and not only on the time",
        )


def _daily(found: Statistics, log: LogStatistics | None) -> Iterator[Violation]:
    """By the means of each hour on each day, so that the days tell how sure it is."""
    if log is None or (log.end - log.start) < _DAYS * DAY:
        return
    middle = log.start + (np.arange(found.rounds) + 0.5) * (log.end - log.start) / found.rounds
    day = np.floor((middle - log.start) / DAY).astype(int)
    hour = np.floor(middle % DAY / 3600).astype(int)
    known = np.isfinite(found.population) & (day < int((log.end - log.start) // DAY))
    count, total = np.zeros((day.max() + 1, 24)), np.zeros((day.max() + 1, 24))
    np.add.at(count, (day[known], hour[known]), 1)
    np.add.at(total, (day[known], hour[known]), found.population[known])
    whole = count.all(axis=1)
    if whole.sum() < _DAYS:
        return
    means = total[whole] / count[whole]
    by_hour = means.mean(axis=0)
    # Analysis of variance: the hours' means against the days within an hour; 3 is beyond the 99.9 % level.
    ratio = len(means) * float(by_hour.var(ddof=1)) / max(float(means.var(axis=0, ddof=1).mean()), 1e-12)
    low, high = float(by_hour.min()), float(by_hour.max())
    if high > _VARIES * low and ratio > _DAILY_RATIO:
        yield Violation(
            "availability does not depend on the time of day",
            f"the share of available clients goes from {low:.3f} to {high:.3f} over the hours of a day",
            "FedAU, F3AST and FedAvg with one p per client",
        )


def _together(found: Statistics) -> Iterator[Violation]:
    if not found.pairwise > _TOGETHER:  # or not known
        return
    variances = found.share * (1 - found.share)
    between = float(np.sqrt(variances).sum() ** 2 - variances.sum())
    error = math.sqrt(2 / _effective_rounds(found)) * float(variances.sum()) / between
    if found.pairwise > _SURE * error:
        yield Violation(
            "clients come and go independently of each other",
            f"mean correlation of two clients {found.pairwise:.3f}",
            "FedSWE's analysis, unless only their probabilities change together; all methods have rounds with few "
            "clients",
        )
