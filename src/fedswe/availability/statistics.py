"""Statistics of a record of availability: who was available in which round, and when each client was observed.

Rounds in which a client was not observed count neither as available nor as unavailable.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedswe.availability.schedule import Bools, Floats, Integers

if TYPE_CHECKING:
    from fedswe.availability.log import Log

DAY = 86_400.0
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
ECHO_LEVELS = (0.5, 0.95, 0.99, 1.0)
_HOUR = 3600.0
SHORT = 60.0  # seconds: a session below it is a device that goes on and off


@dataclass(frozen=True, eq=False)
class Record:
    """Who was available in which round, [rounds, clients]."""

    available: Bools
    observed: Bools | None = None  # None: everybody in every round; what is available was observed
    round_seconds: float | None = None

    @property
    def seen(self) -> Bools:
        """When each client was observed."""
        return np.broadcast_to(np.True_, self.available.shape) if self.observed is None else self.observed

    @property
    def share(self) -> Floats:
        """Of the observed rounds in which each client is available; NaN if it was never observed."""
        return _ratios(self.available.sum(axis=0), self.seen.sum(axis=0))

    @property
    def population(self) -> Floats:
        """Of the observed clients in each round that are available; NaN if none is observed."""
        return _ratios(self.available.sum(axis=1), self.seen.sum(axis=1))

    @property
    def rounds(self) -> int:
        return len(self.available)

    @property
    def m(self) -> int:
        return int(self.available.shape[1])


class Statistics:
    """What a record says. Lengths are in rounds; an echo is t - tau_i of an available client, from tau = -1 on."""

    def __init__(self, record: Record) -> None:
        there, seen = record.available, record.seen
        day = None if record.round_seconds is None else round(DAY / record.round_seconds)
        self.clients, self.rounds = record.m, record.rounds
        self.share, self.population = record.share, record.population
        # P(available | available in the round before), P(available | not available in the round before)
        both = seen[1:] & seen[:-1]
        before, after = there[:-1] & both, there[1:] & both
        stayed = int((before & after).sum())
        self.stays = _ratio(stayed, int(before.sum()))
        self.returns = _ratio(int(after.sum()) - stayed, int(both.sum()) - int(before.sum()))
        # Clients one after the other: when each is available, whether for the first time, and when it was before.
        client, t = np.nonzero(there.T)
        first = np.append(True, client[1:] != client[:-1])[: len(t)]
        previous = np.where(first, -1, np.roll(t, 1))
        # An absence in which a client was not observed in some round has no known length.
        unseen = np.zeros((self.rounds + 1, self.clients), dtype=np.int32)
        if record.observed is not None:
            np.cumsum(~seen, axis=0, out=unseen[1:])
        echo, known = t - previous, unseen[t, client] == unseen[previous + 1, client]
        # [largest + 1], numbers of reports with each echo, of outages between sessions, of sessions with each length
        self.echoes = np.bincount(echo[known], minlength=2)
        self.echo_mean = _ratio(float(np.arange(len(self.echoes)) @ self.echoes), int(self.echoes.sum()))
        self.outages = np.bincount(echo[known & ~first & (echo > 1)] - 1)
        self.sessions = np.bincount(np.diff(np.append(np.flatnonzero(first | (echo > 1)), len(t))))
        # [len(lags)], of a client's availability with its own, so many rounds later
        self.lags = tuple(sorted({lag for lag in (1, 6, day) if lag is not None and 1 <= lag <= self.rounds // 2}))
        known_share = np.nan_to_num(self.share)
        self.correlation = np.array([_correlation(there, seen, known_share, lag) for lag in self.lags])
        available_in = there.sum(axis=1).astype(np.float64)
        # The mean correlation of two clients in the same round.
        self.pairwise = _pairwise(available_in, self.share, self.rounds) if record.observed is None else math.nan
        # [clients], the weight that FedAvg over active clients gives each: mean of 1{i in A} / |A|
        weight = np.bincount(client, 1 / available_in[t], minlength=self.clients)
        self.weight = weight / weight.sum() if weight.any() else weight
        # Their total variation distance from equal weights: 0 none, 1 all; and the number of equally weighted clients
        # with their variance, 1 / sum of squares.
        self.fedavg_distance = float(np.abs(self.weight - 1 / self.clients).sum() / 2)
        self.effective_clients = float(1 / (self.weight**2).sum()) if weight.any() else 0.0
        # delta(P), the smallest share of a window in which a client is available, or NaN; and the fewest observed
        # rounds of a window that counts. P: powers of two up to half of the record, a day, a week, the whole record.
        windows = {2**power for power in range(self.rounds.bit_length()) if 2 * 2**power <= self.rounds}
        windows |= {window for window in (day, day and 7 * day) if window and 2 * window <= self.rounds}
        self.windows = tuple(sorted(windows | {self.rounds}))
        deltas = [_smallest_share(there, seen, window) for window in self.windows]
        self.smallest, self.judged_on = (np.array(column) for column in zip(*deltas, strict=True))


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


def _ratios(part: Integers, whole: Integers) -> Floats:
    return np.asarray(np.divide(part, whole, out=np.full(len(part), np.nan), where=whole > 0))


def _correlation(there: Bools, seen: Bools, share: Floats, lag: int) -> float:
    """The correlation of a client's availability with its own `lag` rounds later, pooled over clients."""
    now, later = (there[:-lag] & seen[lag:]).sum(axis=0), (there[lag:] & seen[:-lag]).sum(axis=0)
    pairs, both = ((table[:-lag] & table[lag:]).sum(axis=0) for table in (seen, there))
    product = both - share * (now + later) + share**2 * pairs
    spread = [float((rounds - 2 * share * rounds + share**2 * pairs).sum()) for rounds in (now, later)]
    return _ratio(float(product.sum()), math.sqrt(max(spread[0] * spread[1], 0.0)))


def _smallest_share(there: Bools, seen: Bools, window: int) -> tuple[float, int]:
    """The smallest share of the observed rounds of a window in which a client that is ever available is there.

    Windows begin at multiples of their length. One that was mostly not observed says little, and is left out. Also the
    fewest observed rounds of a window that counts. NaN and 0 if there is none.
    """
    number = len(there) // window
    available, count = (
        t[: number * window].reshape(number, window, -1).sum(axis=1, dtype=np.int32) for t in (there, seen)
    )
    whole = (count * 2 >= window) & there.any(axis=0)
    if not whole.any():
        return math.nan, 0
    return float((available[whole] / count[whole]).min()), int(count[whole].min())


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
        # Seconds, of all devices; the share of sessions below a minute; seconds of the devices with two sessions.
        self.sessions, self.outages = after - first, (first[1:] - after[:-1])[same]
        self.short = float((self.sessions < SHORT).mean()) if self.sessions.size else 0.0
        longest = np.full(devices, -1.0)
        np.maximum.at(longest, device[1:][same], self.outages)
        self.longest_outage = longest[longest >= 0]
        # The shares of the devices that are available at the very beginning and at the very end.
        self.at_start, self.at_end = float((first <= start).sum() / devices), float((after >= end).sum() / devices)


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
