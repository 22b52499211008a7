"""Which assumptions of which methods an availability violates, beyond the noise of the record."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedswe.availability.schedule import Floats
from fedswe.availability.statistics import DAY, LogStatistics, Statistics

_CORRELATED = 0.1  # of a client with itself in later rounds
_TOGETHER = 0.02  # mean of two clients
_VARIES = 1.3  # largest over smallest, over the day or over the rounds
_UNEQUAL = 0.1  # distance of FedAvg's weights from equal ones
_LONG_ECHO = 20  # rounds, of one report in a hundred
_SURE = 4.0  # standard errors
_DAILY_RATIO = 3.0
_DAYS = 3  # that a pattern over the day must have been seen


@dataclass(frozen=True)
class Violation:
    assumption: str
    measured: str
    methods: str

    def sentence(self) -> str:
        return f"violated: {self.assumption}. Measured: {self.measured}. Concerns: {self.methods}."


def violations(
    found: Statistics, never: int, probabilities: Floats | None, log: LogStatistics | None
) -> list[Violation]:
    """`never` clients are in no round. `probabilities` [rounds, m] are those of a model with independent rounds."""
    every = [_never(found, never), _unequal(found)]
    if probabilities is not None:
        return [one for one in (*every, _changing(probabilities)) if one is not None]
    return [one for one in (*every, _dependent(found), _daily(found, log), _together(found)) if one is not None]


def remarks(found: Statistics) -> list[str]:
    """What is no assumption of a method, but matters to it."""
    said = []
    high, longest = found.echo_quantiles((0.99, 1.0))
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


def _never(found: Statistics, never: int) -> Violation | None:
    if not never:
        return None
    return Violation(
        "every client is available now and then",
        f"{never} of {found.clients} clients are available in no round",
        "all methods: they learn nothing from these clients, whose data are part of the average that is minimised",
    )


def _unequal(found: Statistics) -> Violation | None:
    share = found.share[np.isfinite(found.share)]
    mean = float(share.mean())
    # The variance of the shares of equal clients, and how far it strays.
    noise = mean * (1 - mean) / _effective_rounds(found) * (1 + _SURE * math.sqrt(2 / max(1, len(share) - 1)))
    if found.fedavg_distance <= _UNEQUAL or float(share.var()) <= noise:
        return None
    return Violation(
        "clients are available equally often",
        f"FedAvg weighs {found.clients} clients like {found.effective_clients:.1f} equal ones; the distance of its "
        f"weights from equal ones is {found.fedavg_distance:.2f}",
        "FedAvg and gFedAvg over active clients, which minimise another average than that over all clients",
    )


def _changing(probabilities: Floats) -> Violation | None:
    over_time = probabilities.mean(axis=1)
    own = probabilities.max(axis=0) > _VARIES * probabilities.min(axis=0)
    if not own.any():
        return None
    return Violation(
        "probabilities do not change over time",
        f"those of {int(own.sum())} clients do; their mean over clients goes from {over_time.min():.2f} to "
        f"{over_time.max():.2f}",
        "FedAU and F3AST, which estimate one probability per client",
    )


def _dependent(found: Statistics) -> Violation | None:
    noise = _SURE / math.sqrt(found.clients * found.rounds)
    seen = {lag: r for lag, r in zip(found.lags, found.correlation.tolist(), strict=True) if math.isfinite(r)}
    strong = {lag: r for lag, r in seen.items() if abs(r) > max(_CORRELATED, noise)}
    if not strong:
        return None
    lag, value = max(strong.items(), key=lambda item: abs(item[1]))
    after = "in the next round" if lag == 1 else f"{lag} rounds later"
    return Violation(
        "rounds are independent, with constant probabilities",
        f"a client's availability correlates with its own {after} by {value:.2f}",
        "FedAU, F3AST and FedAvg with known p, which take it so; FedSWE's analysis, if rounds depend on each other and "
        "not only on the time",
    )


def _daily(found: Statistics, log: LogStatistics | None) -> Violation | None:
    """By the means of each hour on each day, so that the days tell how sure it is."""
    if log is None or (log.end - log.start) < _DAYS * DAY:
        return None
    middle = log.start + (np.arange(found.rounds) + 0.5) * (log.end - log.start) / found.rounds
    day = np.floor((middle - log.start) / DAY).astype(int)
    hour = np.floor(middle % DAY / 3600).astype(int)
    known = np.isfinite(found.population) & (day < int((log.end - log.start) // DAY))
    count, total = np.zeros((day.max() + 1, 24)), np.zeros((day.max() + 1, 24))
    np.add.at(count, (day[known], hour[known]), 1)
    np.add.at(total, (day[known], hour[known]), found.population[known])
    whole = count.all(axis=1)
    if whole.sum() < _DAYS:
        return None
    means = total[whole] / count[whole]
    by_hour = means.mean(axis=0)
    # Analysis of variance: the hours' means against the days within an hour; 3 is beyond the 99.9 % level.
    ratio = len(means) * float(by_hour.var(ddof=1)) / max(float(means.var(axis=0, ddof=1).mean()), 1e-12)
    low, high = float(by_hour.min()), float(by_hour.max())
    if high <= _VARIES * low or ratio <= _DAILY_RATIO:
        return None
    return Violation(
        "availability does not depend on the time of day",
        f"the share of available clients goes from {low:.3f} to {high:.3f} over the hours of a day",
        "FedAU, F3AST and FedAvg with one p per client",
    )


def _together(found: Statistics) -> Violation | None:
    share = found.share
    if not math.isfinite(found.pairwise) or found.pairwise <= _TOGETHER:
        return None
    variances = share * (1 - share)
    between = float(np.sqrt(variances).sum() ** 2 - variances.sum())
    error = math.sqrt(2 / _effective_rounds(found)) * float(variances.sum()) / between
    if found.pairwise <= _SURE * error:
        return None
    return Violation(
        "clients come and go independently of each other",
        f"mean correlation of two clients {found.pairwise:.3f}",
        "FedSWE's analysis, unless only their probabilities change together; all methods have rounds with few clients",
    )
