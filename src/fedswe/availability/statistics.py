"""Statistics of a record of availability: who was available in which round, and when each client was observed.

Rounds in which a client was not observed count neither as available nor as unavailable. A month of ten-minute rounds
of 100,000 devices has 432 million cells and a few million runs, so statistics are computed from the runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fedswe.availability.schedule import Bools, Floats

if TYPE_CHECKING:
    from fedswe.availability.logs import Log

Integers = npt.NDArray[np.int64]

DAY = 86_400.0
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
ECHO_LEVELS = (0.5, 0.95, 0.99, 1.0)
_BLOCK = 1 << 22  # windows at once
_HOUR = 3600.0
SHORT = 60.0  # seconds: a session below it is a device that goes on and off


@dataclass(frozen=True, eq=False)
class Runs:
    """The rounds in which each client is available, or observed.

    Disjoint runs [first, after) that do not touch, in order of client and round.
    """

    m: int
    rounds: int
    client: Integers
    first: Integers
    after: Integers

    @classmethod
    def whole(cls, m: int, rounds: int) -> Runs:
        """Every client in every round."""
        return cls(m, rounds, np.arange(m), np.zeros(m, dtype=np.int64), np.full(m, rounds))

    @classmethod
    def drawn(cls, sample: Callable[[int], Bools], m: int, rounds: int) -> Runs:
        """Of rows that are asked for one after the other."""
        before = np.zeros(m, dtype=bool)
        begun: list[tuple[Integers, int]] = []
        ended: list[tuple[Integers, int]] = []
        for t in range(rounds + 1):
            row = sample(t) if t < rounds else np.zeros(m, dtype=bool)
            changed = np.flatnonzero(row != before)
            begun.append((changed[row[changed]], t))
            ended.append((changed[~row[changed]], t))
            before = row.copy()
        (client, first), (other, after) = (_ordered(edges) for edges in (begun, ended))
        assert np.array_equal(client, other)
        return cls(m, rounds, client, first, after)

    def until(self, rounds: int) -> Runs:
        """The same in the first rounds only."""
        kept = self.first < rounds
        return Runs(self.m, rounds, self.client[kept], self.first[kept], np.minimum(self.after[kept], rounds))

    @property
    def length(self) -> Integers:
        return self.after - self.first

    @cached_property
    def count(self) -> Integers:
        """The rounds of each client."""
        return np.bincount(self.client, self.length, minlength=self.m).astype(np.int64)

    @cached_property
    def per_round(self) -> Integers:
        """The clients of each round."""
        edges = np.bincount(self.first, minlength=self.rounds + 1) - np.bincount(self.after, minlength=self.rounds + 1)
        return np.cumsum(edges)[: self.rounds]

    @cached_property
    def line(self) -> tuple[Integers, Integers, Integers]:
        """Clients one after the other on a line, rounds + 1 places each: where each run begins and ends, between an
        empty run before all others and one after them; and the places in runs before each."""
        home, far = self.client * (self.rounds + 1), self.m * (self.rounds + 1)
        total = np.concatenate([[0, 0], np.cumsum(self.length)])
        return np.concatenate([[-1], home + self.first, [far]]), np.concatenate([[-1], home + self.after, [far]]), total

    def before(self, client: Integers, t: Integers) -> Integers:
        """How many rounds of the runs of all clients up to this one, in order, come before its round t."""
        begin, end, total = self.line
        place = client * (self.rounds + 1) + t
        last = np.searchsorted(begin, place, side="right") - 1  # the last run that begins at the place or before
        return np.asarray(total[last + 1] - np.maximum(end[last] - place, 0))

    def within(self, client: Integers, first: Integers, after: Integers) -> Integers:
        """How many of a client's rounds `first` to `after` - 1 are in its runs."""
        first, after = np.clip(first, 0, self.rounds), np.clip(after, 0, self.rounds)
        return np.where(after > first, self.before(client, after) - self.before(client, first), 0)

    def overlap(self, other: Runs, lag: int) -> Integers:
        """For each client, the rounds t in its runs for which t + lag is in the other's."""
        found = other.within(self.client, self.first + lag, self.after + lag)
        return np.bincount(self.client, found, minlength=self.m).astype(np.int64)

    def sums(self, of_round: Floats) -> Floats:
        """For each client, the sum over its rounds of a number that belongs to the round."""
        total = np.concatenate([[0.0], np.cumsum(of_round)])
        return np.bincount(self.client, total[self.after] - total[self.first], minlength=self.m).astype(np.float64)


def _ordered(edges: list[tuple[Integers, int]]) -> tuple[Integers, Integers]:
    """Clients and rounds of edges that were found round by round, in order of client and round."""
    client = np.concatenate([who for who, _ in edges])
    t = np.repeat(np.array([t for _, t in edges]), [len(who) for who, _ in edges])
    order = np.argsort(client, kind="stable")
    return client[order], t[order]


@dataclass(frozen=True, eq=False)
class Record:
    """Who was available in which round."""

    available: Runs
    observed: Runs | None = None  # None: everybody in every round; what is available was observed
    round_seconds: float | None = None

    @property
    def seen(self) -> Runs:
        """When each client was observed."""
        return self.observed or Runs.whole(self.m, self.rounds)

    @property
    def share(self) -> Floats:
        """Of the observed rounds in which each client is available; NaN if it was never observed."""
        seen, unknown = self.seen.count, np.full(self.m, np.nan)
        return np.asarray(np.divide(self.available.count, seen, out=unknown, where=seen > 0))

    @property
    def population(self) -> Floats:
        """Of the observed clients in each round that are available; NaN if none is observed."""
        seen, unknown = self.seen.per_round, np.full(self.rounds, np.nan)
        return np.asarray(np.divide(self.available.per_round, seen, out=unknown, where=seen > 0))

    @property
    def rounds(self) -> int:
        return self.available.rounds

    @property
    def m(self) -> int:
        return self.available.m


@dataclass(frozen=True, eq=False)
class Statistics:
    """What a record says. Lengths are in rounds; an echo is t - tau_i of an available client, from tau = -1 on."""

    clients: int
    rounds: int
    share: Floats  # [clients], of the observed rounds in which each is available; NaN if it was never observed
    population: Floats  # [rounds], share of the observed clients that are available; NaN if none is observed
    stays: float  # P(available | available in the round before)
    returns: float  # P(available | not available in the round before)
    echoes: Integers  # [largest echo + 1], number of reports with each echo
    sessions: Integers  # [longest + 1], number of runs of available rounds with each length
    outages: Integers  # [longest + 1], number of runs of unavailable rounds between two sessions
    correlation: Floats  # [len(lags)], of a client's availability with its own, so many rounds later
    lags: tuple[int, ...]
    pairwise: float  # mean correlation of two clients in the same round
    weight: Floats  # [clients], the weight that FedAvg over active clients gives each: mean of 1{i in A} / |A|
    windows: tuple[int, ...]
    smallest: Floats  # [len(windows)], delta(P): the smallest share of a window in which a client is available, or NaN
    judged_on: Integers  # [len(windows)], the fewest observed rounds of a window that counts

    @property
    def ever(self) -> Bools:
        return np.asarray(self.share > 0)

    @property
    def fedavg_distance(self) -> float:
        """Total variation distance of FedAvg's weights from equal ones: 0 none, 1 all."""
        return float(np.abs(self.weight - 1 / self.clients).sum() / 2)

    @property
    def effective_clients(self) -> float:
        """The number of equally weighted clients with the variance of FedAvg's weights: 1 / sum of squares."""
        return float(1 / (self.weight**2).sum()) if self.weight.any() else 0.0

    def echo_quantiles(self, levels: Sequence[float] = ECHO_LEVELS) -> list[int]:
        return [quantile(self.echoes, level) for level in levels]

    @property
    def echo_mean(self) -> float:
        return mean_length(self.echoes)


def quantile(counts: Integers, level: float) -> int:
    """The smallest value that this share of the counted values does not exceed."""
    total = np.cumsum(counts)
    return int(np.searchsorted(total, math.ceil(level * total[-1] - 1e-9), side="left")) if total[-1] else 0


def mean_length(counts: Integers) -> float:
    return float(np.arange(len(counts)) @ counts / counts.sum()) if counts.sum() else math.nan


def gini(share: Floats) -> float:
    """0 if all clients are available equally often, near 1 if one has all; NaN are left out."""
    ordered = np.sort(share[np.isfinite(share)])
    n = len(ordered)
    return float((2 * np.arange(1, n + 1) - n - 1) @ ordered / (n * ordered.sum())) if ordered.any() else 0.0


def beta_with(mean: float, variance: float) -> tuple[float, float] | None:
    """The Beta distribution with this mean and variance; None if there is none."""
    scale = mean * (1 - mean) / variance - 1 if variance > 0 else 0.0
    return (mean * scale, (1 - mean) * scale) if scale > 0 else None


def statistics(given: Record) -> Statistics:
    runs, m, rounds = given.available, given.m, given.rounds
    seen, share = given.seen, given.share
    day = None if given.round_seconds is None else round(DAY / given.round_seconds)
    lags = tuple(sorted({lag for lag in (1, 6, day) if lag is not None and 1 <= lag <= rounds // 2}))
    windows = _windows(rounds, day)
    available_in = runs.per_round.astype(np.float64)
    fair = np.divide(1.0, available_in, out=np.zeros(rounds), where=available_in > 0)  # FedAvg: 1 / |A|
    weight = runs.sums(fair)
    stays, returns = transitions(runs, seen)
    echoes, outages = _gaps(runs, seen)
    served = weight.sum()  # rounds with a client
    deltas = [_smallest_share(runs, seen, window) for window in windows]
    return Statistics(
        clients=m,
        rounds=rounds,
        share=share,
        population=given.population,
        stays=stays,
        returns=returns,
        echoes=echoes,
        sessions=np.bincount(runs.length),
        outages=outages,
        correlation=np.array([_correlation(runs, seen, np.nan_to_num(share), lag) for lag in lags]),
        lags=lags,
        pairwise=math.nan if given.observed else _pairwise(available_in, share, rounds),
        weight=weight / served if served else weight,
        windows=windows,
        smallest=np.array([share for share, _ in deltas]),
        judged_on=np.array([count for _, count in deltas]),
    )


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole else math.nan


def _windows(rounds: int, day: int | None) -> tuple[int, ...]:
    """Powers of two up to half of the record, a day, a week, and the whole record."""
    found = {2**power for power in range(rounds.bit_length()) if 2 * 2**power <= rounds}
    found |= {window for window in (day, day and 7 * day) if window and 2 * window <= rounds}
    return tuple(sorted(found | {rounds}))


def transitions(runs: Runs, seen: Runs) -> tuple[float, float]:
    """P(available | available in the round before) and P(available | not), of rounds that were both observed."""
    pairs = int((seen.length - 1).sum())
    stayed = int((runs.length - 1).sum())
    before = int(runs.overlap(seen, 1).sum())  # available, and observed in the next round
    after = int(runs.overlap(seen, -1).sum())
    return _ratio(stayed, before), _ratio(after - stayed, pairs - before)


def _gaps(runs: Runs, seen: Runs) -> tuple[Integers, Integers]:
    """Counts of echoes and of outages by their length.

    An outage lies between two sessions. Where a client was not observed in between, or before its first session, the
    length is not known, and neither echo nor outage is counted.
    """
    client, first, after = runs.client, runs.first, runs.after
    same = np.concatenate([[False], client[1:] == client[:-1]])[: len(client)]
    previous = np.where(same, np.concatenate([[0], after[:-1]])[: len(client)], 0)
    gap = first - previous
    known = seen.within(client, previous, first) == gap
    echoes = np.bincount(gap[known] + 1, minlength=2)
    echoes[1] += int((after - first - 1).sum())
    known &= same
    return echoes, np.bincount(gap[known])


def _correlation(runs: Runs, seen: Runs, share: Floats, lag: int) -> float:
    """The correlation of a client's availability with its own `lag` rounds later, pooled over clients."""
    both = seen.overlap(seen, lag)
    now, later = runs.overlap(seen, lag), runs.overlap(seen, -lag)
    product = runs.overlap(runs, lag) - share * (now + later) + share**2 * both
    spread = [float((rounds - 2 * share * rounds + share**2 * both).sum()) for rounds in (now, later)]
    return _ratio(float(product.sum()), math.sqrt(max(spread[0] * spread[1], 0.0)))


def _smallest_share(runs: Runs, seen: Runs, window: int) -> tuple[float, int]:
    """The smallest share of the observed rounds of a window in which a client that is ever available is there.

    Windows begin at multiples of their length. One that was mostly not observed says little, and is left out. Also the
    fewest observed rounds of a window that counts. NaN and 0 if there is none.
    """
    clients = np.flatnonzero(runs.count > 0)
    borders = np.arange(runs.rounds // window + 1) * window
    smallest, fewest = math.nan, 0
    width = max(1, _BLOCK // len(borders))
    for start in range(0, len(clients), width):
        some = clients[start : start + width, None]
        count = np.diff(seen.before(some, borders), axis=1)
        available = np.diff(runs.before(some, borders), axis=1)
        whole = count * 2 >= window
        if whole.any():
            smallest = float(np.fmin(smallest, (available[whole] / count[whole]).min()))
            fewest = min(fewest or window, int(count[whole].min()))
        if smallest == 0:
            break
    return smallest, fewest


def _pairwise(available_in: Floats, share: Floats, rounds: int) -> float:
    """The mean correlation of two clients: the variance of the number available, less that of independent clients."""
    spread = rounds * share * (1 - share)
    excess = float(((available_in - share.sum()) ** 2).sum() - spread.sum())
    between = float(np.sqrt(spread).sum() ** 2 - spread.sum())
    return excess / between if between > 1e-9 * rounds else math.nan


# of a log, in seconds -------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class LogStatistics:
    """Of the time from `start` to `end`; what lies outside is cut off."""

    start: float
    end: float
    share: Floats  # [devices], of the observed time in which each is available; NaN if it was not observed
    per_day: Floats  # [devices], sessions per observed day
    sessions: Floats  # seconds, of all devices
    outages: Floats  # seconds between two sessions, of all devices
    longest_outage: Floats  # [devices with two sessions], seconds
    by_hour: Floats  # [24], share of the observed time in which devices are available, by hour of the day
    at_start: float  # share of the devices that are available at the very beginning
    at_end: float  # and at the very end

    @property
    def short(self) -> float:
        """The share of sessions below a minute."""
        return float((self.sessions < SHORT).mean()) if self.sessions.size else 0.0


def log_statistics(log: Log, start: float, end: float, devices: int) -> LogStatistics:
    """`devices` may exceed those that the log names: the others were never available."""
    device, first, after, window = _between(log, start, end)
    everything = np.arange(devices), np.full(devices, start), np.full(devices, end)
    seen = everything if log.observed is None else _between(log.observed, start, end)[:3]
    seen_device, seen_first, seen_after = seen
    observed = np.bincount(seen_device, seen_after - seen_first, minlength=devices)
    available = np.bincount(device, after - first, minlength=devices)
    count = np.bincount(device, minlength=devices)
    same = (device[1:] == device[:-1]) & (window[1:] == window[:-1])  # an outage that was observed
    gap = (first[1:] - after[:-1])[same]
    longest = np.zeros(devices)
    np.maximum.at(longest, device[1:][same], gap)
    with np.errstate(invalid="ignore", divide="ignore"):
        by_hour = _by_hour(first, after) / _by_hour(seen_first, seen_after)
    return LogStatistics(
        start,
        end,
        share=np.divide(available, observed, out=np.full(devices, np.nan), where=observed > 0),
        per_day=np.divide(count * DAY, observed, out=np.full(devices, np.nan), where=observed > 0),
        sessions=after - first,
        outages=gap,
        longest_outage=longest[np.bincount(device[1:][same], minlength=devices) > 0],
        by_hour=by_hour,
        at_start=float((first <= start).sum() / devices),
        at_end=float((after >= end).sum() / devices),
    )


def _between(log: Log, start: float, end: float) -> tuple[Integers, Floats, Floats, Integers]:
    """Device, start, end and observation of the intervals, cut to the time from `start` to `end`."""
    device = log.device
    window = device if log.window is None else log.window
    first, after = log.start.clip(start, end), log.end.clip(start, end)
    kept = after > first
    return device[kept], first[kept], after[kept], window[kept]


def _by_hour(first: Floats, after: Floats) -> Floats:
    """The seconds of the intervals in each hour of the day, counted from midnight of the log's clock."""
    return np.diff([_before(after, hour).sum() - _before(first, hour).sum() for hour in range(25)])


def _before(time: Floats, hour: int) -> Floats:
    """The seconds from time 0 on that lie in the first `hour` hours of a day."""
    days = np.floor(time / DAY)
    return np.asarray(days * hour * _HOUR + np.minimum(time - days * DAY, hour * _HOUR))
