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
        before = nobody = np.zeros(m, dtype=bool)
        changed = []
        for t in range(rounds + 1):
            row = sample(t).copy() if t < rounds else nobody
            changed.append(np.flatnonzero(row != before))
            before = row
        client = np.concatenate(changed)
        order = np.argsort(client, kind="stable")  # of each client, beginnings and ends take turns
        edges = np.repeat(np.arange(rounds + 1), [len(clients) for clients in changed])[order]
        return cls(m, rounds, client[order][::2], edges[::2], edges[1::2])

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


class Statistics:
    """What a record says. Lengths are in rounds; an echo is t - tau_i of an available client, from tau = -1 on."""

    def __init__(self, record: Record) -> None:
        runs, seen = record.available, record.seen
        day = None if record.round_seconds is None else round(DAY / record.round_seconds)
        self.clients, self.rounds, self.share, self.population = (
            record.m,
            record.rounds,
            record.share,
            record.population,
        )
        # P(available | available in the round before), P(available | not available in the round before)
        self.stays, self.returns = transitions(runs, seen)
        # [largest + 1], numbers of reports with each echo, of sessions with each length, of outages between sessions
        self.echoes, self.outages = _gaps(runs, seen)
        self.sessions = np.bincount(runs.length)
        # [len(lags)], of a client's availability with its own, so many rounds later
        self.lags = tuple(sorted({lag for lag in (1, 6, day) if lag is not None and 1 <= lag <= self.rounds // 2}))
        known = np.nan_to_num(self.share)
        self.correlation = np.array([_correlation(runs, seen, known, lag) for lag in self.lags])
        available_in = runs.per_round.astype(np.float64)
        # The mean correlation of two clients in the same round.
        self.pairwise = math.nan if record.observed else _pairwise(available_in, self.share, self.rounds)
        # [clients], the weight that FedAvg over active clients gives each: mean of 1{i in A} / |A|
        fair = np.divide(1.0, available_in, out=np.zeros(self.rounds), where=available_in > 0)
        weight = runs.sums(fair)
        self.weight = weight / weight.sum() if weight.any() else weight
        # delta(P), the smallest share of a window in which a client is available, or NaN; and the fewest observed
        # rounds of a window that counts. P: powers of two up to half of the record, a day, a week, the whole record.
        windows = {2**power for power in range(self.rounds.bit_length()) if 2 * 2**power <= self.rounds}
        windows |= {window for window in (day, day and 7 * day) if window and 2 * window <= self.rounds}
        self.windows = tuple(sorted(windows | {self.rounds}))
        deltas = [_smallest_share(runs, seen, window) for window in self.windows]
        self.smallest, self.judged_on = (np.array(column) for column in zip(*deltas, strict=True))

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
        total = self.echoes.sum()
        return float(np.arange(len(self.echoes)) @ self.echoes / total) if total else math.nan


def quantile(counts: Integers, level: float) -> int:
    """The smallest value that this share of the counted values does not exceed."""
    total = np.cumsum(counts)
    return int(np.searchsorted(total, math.ceil(level * total[-1] - 1e-9), side="left")) if total[-1] else 0


def gini(share: Floats) -> float:
    """0 if all clients are available equally often, near 1 if one has all; NaN are left out."""
    ordered = np.sort(share[np.isfinite(share)])
    n = len(ordered)
    return float((2 * np.arange(1, n + 1) - n - 1) @ ordered / (n * ordered.sum())) if ordered.any() else 0.0


def beta_with(mean: float, variance: float) -> tuple[float, float] | None:
    """The Beta distribution with this mean and variance; None if there is none."""
    scale = mean * (1 - mean) / variance - 1 if variance > 0 else 0.0
    return (mean * scale, (1 - mean) * scale) if scale > 0 else None


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole else math.nan


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
class LogStatistics:
    """Of the time from `start` to `end`; what lies outside is cut off.

    `devices` may exceed those that the log names: the others were never available.
    """

    def __init__(self, log: Log, start: float, end: float, devices: int) -> None:
        self.start, self.end = start, end
        device, first, after, window = _between(log, start, end)
        everything = np.arange(devices), np.full(devices, start), np.full(devices, end)
        seen = everything if log.observed is None else _between(log.observed, start, end)[:3]
        observed = np.bincount(seen[0], seen[2] - seen[1], minlength=devices)
        with np.errstate(invalid="ignore", divide="ignore"):
            # [devices], of the observed time in which each is available, and sessions per observed day; NaN if not seen
            self.share = np.bincount(device, after - first, minlength=devices) / observed
            self.per_day = np.bincount(device, minlength=devices) * DAY / observed
            # [24], share of the observed time in which devices are available, by hour of the day
            self.by_hour = _by_hour(first, after) / _by_hour(*seen[1:])
        same = (device[1:] == device[:-1]) & (window[1:] == window[:-1])  # an outage that was observed
        # Seconds, of all devices; and of the devices with two sessions.
        self.sessions, self.outages = after - first, (first[1:] - after[:-1])[same]
        longest = np.full(devices, -1.0)
        np.maximum.at(longest, device[1:][same], self.outages)
        self.longest_outage = longest[longest >= 0]
        # The shares of the devices that are available at the very beginning and at the very end.
        self.at_start, self.at_end = float((first <= start).sum() / devices), float((after >= end).sum() / devices)

    @property
    def short(self) -> float:
        """The share of sessions below a minute."""
        return float((self.sessions < SHORT).mean()) if self.sessions.size else 0.0


def _between(log: Log, start: float, end: float) -> tuple[Integers, Floats, Floats, Integers]:
    """Device, start, end and observation of the intervals, cut to the time from `start` to `end`."""
    window = log.device if log.window is None else log.window
    first, after = log.start.clip(start, end), log.end.clip(start, end)
    kept = after > first
    return log.device[kept], first[kept], after[kept], window[kept]


def _by_hour(first: Floats, after: Floats) -> Floats:
    """The seconds of the intervals in each hour of the day, counted from midnight of the log's clock."""
    return np.diff([_before(after, hour).sum() - _before(first, hour).sum() for hour in range(25)])


def _before(time: Floats, hour: int) -> Floats:
    """The seconds from time 0 on that lie in the first `hour` hours of a day."""
    days = np.floor(time / DAY)
    return np.asarray(days * hour * _HOUR + np.minimum(time - days * DAY, hour * _HOUR))
