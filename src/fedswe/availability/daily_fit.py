"""The chains of `daily_markov` that are most like a record: estimates, corrected by what the model itself gives.

Shares, sessions and slopes of a finite record are not the parameters behind them: a client's share of a week strays
from its mean availability, and lucky clients seem to have longer sessions. So clients of the model are recorded in the
same way, and the parameters are moved until the model shows what the record shows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fedswe.availability.markov import HOURS, DailyChains, DailyMarkov
from fedswe.availability.model import Population
from fedswe.availability.schedule import Bools, Floats, Schedule
from fedswe.availability.statistics import Record, Runs, beta_with, transitions
from fedswe.core import keys
from fedswe.errors import require

_CLIENTS = 1000  # of the model, in each correction
_CORRECTIONS = 8
_ROUNDS = 20_000  # of a record, at most: each is drawn many times
_GROUPS = 8  # of clients, for the slope of the sessions
_FEWEST = 30  # stays of which a mixture is estimated
_SEED = 0
_DENSEST = 1e4  # of alpha + beta
_DIGITS = 4


@dataclass(frozen=True)
class Shown:
    """What a record shows of the parameters."""

    mean: float  # over clients, of their shares of the rounds
    square: float  # mean of the squares
    never: float  # share of the clients
    leaves: float  # P(not available | available in the round before)
    slope: float  # of ln(mean session) over ln(share / (1 - share)), over groups of clients
    level: float  # ln(mean session) at a share of 1/2


def fit(record: Record, round_seconds: float, start_hour: float) -> DailyMarkov:
    """The model for a record whose round 0 begins at this hour of the day."""
    shown = _shown(record)
    amplitude, peak = rhythm(record, round_seconds)
    hours = round_seconds / 3600
    (short_sessions, short_session), (short_outages, short_outage) = _mixtures(record, shown)
    model = DailyMarkov(
        session_hours=math.exp(shown.level) * hours,
        exponent=float(np.clip(shown.slope, 0.0, 1.0)),
        short_sessions=short_sessions,
        short_session=short_session,
        short_outages=short_outages,
        short_outage=short_outage,
        amplitude=min(1.0, amplitude),
        peak_hour=(start_hour + peak) % HOURS,
        start_hour=start_hour,
        round_seconds=round_seconds,
    )
    model, within, missing = _with_means(model, shown, within=0.0, never=0.0), 0.0, 0.0
    for turn in range(_CORRECTIONS):
        gain = 1 / max(1, turn - 1)  # the first steps in full, later ones smaller, so that noise averages out
        mean = _stratified(model, turn)
        chains = DailyChains(model, mean, np.ones(_CLIENTS, dtype=bool), turn)
        drawn = _recorded(chains, record)
        found = _shown(drawn)
        if not found.leaves > 0:  # a record of few rounds, in which no generated client leaves
            break
        within += gain * (float(np.nanmean((drawn.share - mean) ** 2)) - within)
        missing += gain * ((shown.never - found.never) / (1 - found.never) - missing)
        noise = 2 * math.sqrt(shown.never * (1 - shown.never) / record.m)
        model = replace(
            model,
            session_hours=model.session_hours * (found.leaves / shown.leaves) ** gain,
            exponent=float(np.clip(model.exponent + gain * (shown.slope - found.slope), 0.0, 1.0)),
            amplitude=min(1.0, model.amplitude * amplitude / chains.amplitude) if amplitude else 0.0,
        )
        model = _with_means(model, shown, within, missing if missing > noise else 0.0)
    return rounded(model)


def rounded(model: DailyMarkov) -> DailyMarkov:
    """The parameters with four digits, as they are written."""
    values = {name: float(f"{value:.{_DIGITS}g}") for name, value in vars(model).items()}
    return replace(model, **values)


def generated(model: DailyMarkov, record: Record, clients: int, seed: int) -> Record:
    """A record of clients of the model, observed when those of the given record were."""
    return _recorded(model.schedule(Population(clients), seed), record)


def _recorded(schedule: Schedule, like: Record) -> Record:
    m, rounds = schedule.m, like.rounds
    if like.observed is None:
        return Record(Runs.drawn(schedule.sample, m, rounds), None, like.round_seconds)
    seen = _table(like.observed, np.arange(m) * like.m // m)  # devices from all of the record, which may be sorted
    available = Runs.drawn(lambda t: schedule.sample(t) & seen[t], m, rounds)
    return Record(available, Runs.drawn(lambda t: seen[t], m, rounds), like.round_seconds)


def rhythm(record: Record, round_seconds: float) -> tuple[float, float]:
    """The amplitude of the daily rhythm of the population relative to its mean, and its peak in hours from round 0.

    By least squares of a wave of 24 hours, a level and a trend; 0 if the record is shorter than a day.
    """
    day = HOURS * 3600 / round_seconds
    population = record.population
    t = np.flatnonzero(np.isfinite(population))
    if record.rounds < day or len(t) < 4 or day < 3:
        return 0.0, 0.0
    angle = 2 * math.pi * t / day
    columns = np.stack([np.ones(len(t)), np.cos(angle), np.sin(angle), t / record.rounds - 0.5], axis=1)
    level, cosine, sine, _ = np.linalg.lstsq(columns, population[t], rcond=None)[0]
    if level <= 0:
        return 0.0, 0.0
    return math.hypot(cosine, sine) / level, math.atan2(sine, cosine) / (2 * math.pi) * HOURS % HOURS


def edges(record: Record) -> float:
    """The share of the unavailable rounds that lie before a client's first session or after its last."""
    runs, seen = record.available, record.seen
    begins = np.concatenate([[True], runs.client[1:] != runs.client[:-1]])
    client, first = runs.client[begins], runs.first[begins]
    last = runs.after[np.concatenate([begins[1:], [True]])]
    between = seen.within(client, first, last) - runs.count[client]
    away = (seen.count - runs.count)[client].sum()
    return float(1 - between.sum() / away) if away else 0.0


# what a record shows ---------------------------------------------------------------------------------------
def _shown(record: Record) -> Shown:
    share = record.share
    known = share[np.isfinite(share)]
    slope, level = _sessions(record, share)
    return Shown(
        mean=float(known.mean()),
        square=float((known**2).mean()),
        never=float((known == 0).mean()),
        leaves=1 - transitions(record.available, record.seen)[0],
        slope=slope,
        level=level,
    )


def _sessions(record: Record, share: Floats) -> tuple[float, float]:
    """A line through ln(mean session) over ln(odds) of groups of clients: slope, and value at even odds."""
    runs = record.available
    number = np.bincount(runs.client, minlength=record.m)
    moving = np.flatnonzero((share > 0) & (share < 1))
    groups = np.array_split(moving[np.argsort(share[moving], kind="stable")], _GROUPS)
    groups = [group for group in groups if len(group)]
    if not groups:
        return 0.0, 0.0
    mean = np.array([share[group].mean() for group in groups])
    x = np.log(mean / (1 - mean))
    y = np.log([runs.count[group].sum() / number[group].sum() for group in groups])
    weight = np.array([number[group].sum() for group in groups], dtype=np.float64)
    centre = np.average(x, weights=weight)
    spread = float(weight @ (x - centre) ** 2)
    slope = float(weight @ ((x - centre) * y)) / spread if spread > 1e-9 else 0.0
    return slope, float(np.average(y, weights=weight)) - slope * centre


def _mixtures(record: Record, shown: Shown) -> tuple[tuple[float, float], tuple[float, float]]:
    """The share and the relative mean of short sessions, and of short outages."""
    runs = record.available
    share = np.nan_to_num(record.share).clip(0.005, 0.995)
    odds = (share / (1 - share))[runs.client]
    session = np.exp(shown.level) * odds**shown.slope
    gap = runs.first[1:] - runs.after[:-1]
    known = record.seen.within(runs.client[1:], runs.after[:-1], runs.first[1:]) == gap
    known &= runs.client[1:] == runs.client[:-1]
    outage = (session / odds)[1:]
    return _two_scales((runs.length - 0.5) / session), _two_scales((gap[known] - 0.5) / outage[known])


def _two_scales(lengths: Floats) -> tuple[float, float]:
    """A mixture of two exponential laws: the share of the short one, and its mean over that of all. By EM."""
    one_scale = 0.0, 1.0
    if len(lengths) < _FEWEST:
        return one_scale
    mean = float(lengths.mean())
    share, short, long = 0.5, 0.3 * mean, 1.7 * mean
    for _ in range(300):
        parts = share / short * np.exp(-lengths / short), (1 - share) / long * np.exp(-lengths / long)
        weight = parts[0] / np.maximum(parts[0] + parts[1], 1e-300)
        total = float(weight.sum())
        if not 1 < total < len(lengths) - 1:
            return one_scale
        share, short = total / len(lengths), float(weight @ lengths) / total
        long = float((1 - weight) @ lengths) / (len(lengths) - total)
    return (share, short / mean) if short < 0.9 * mean else one_scale


# the model -------------------------------------------------------------------------------------------------
def _with_means(model: DailyMarkov, shown: Shown, within: float, never: float) -> DailyMarkov:
    """The model with mean availabilities of the record's moments; `within` clients their shares stray by so much."""
    mean = min(shown.mean / (1 - never), 1 - 1e-6)
    spread = shown.square / (1 - never) - mean**2 - within
    alpha, beta = beta_with(mean, max(spread, mean * (1 - mean) / _DENSEST)) or (mean, 1 - mean)
    return replace(model, alpha=alpha, beta=beta, never=never)


def _stratified(model: DailyMarkov, turn: int) -> Floats:
    """Mean availabilities that stand for the whole law: quantiles of a large draw."""
    drawn = keys.generator(_SEED, f"fit/{turn}").beta(model.alpha, model.beta, 100 * _CLIENTS)
    return np.quantile(drawn, (np.arange(_CLIENTS) + 0.5) / _CLIENTS).clip(1e-6, 1 - 1e-6)


def _table(runs: Runs, clients: npt.NDArray[np.int64]) -> Bools:
    """The runs of these clients, as a table with a row per round."""
    chosen, column = np.unique(clients, return_inverse=True)
    kept = np.isin(runs.client, chosen)
    client = np.searchsorted(chosen, runs.client[kept])
    steps = np.zeros((runs.rounds + 1, len(chosen)), dtype=np.int8)
    steps[runs.first[kept], client] = 1
    steps[runs.after[kept], client] -= 1
    return np.asarray(np.cumsum(steps, axis=0, dtype=np.int8)[:-1, column] > 0)


def check_fit(record: Record, name: str) -> None:
    """Refuse a record of which nothing can be estimated."""
    require(
        record.rounds <= _ROUNDS,
        f"{name} has {record.rounds:,} rounds, more than {_ROUNDS:,} that can be fitted: raise --round-seconds, or set "
        "--end",
    )
    share = record.share
    moving = (share > 0) & (share < 1)
    require(
        bool(moving.any()),
        f"{name}: no client comes or goes: each is available in all of its rounds or in none, so there are no "
        "sessions to fit (use always, or a mask)",
    )
    require(
        transitions(record.available, record.seen)[0] < 1,
        f"{name}: no session ends while its client is observed, so its length cannot be fitted: shorten the rounds, or "
        "give a longer record",
    )
