"""Assumption 1: the window P over which every client is available with mean probability at least δ.

Probabilities are tables ``prob[t, i] = p_i^t`` of shape [rounds, clients]; traces are 0/1 tables of the
same shape. A trace is one realisation: from it δ can only be estimated, with an interval.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from fedswe.errors import FedsweError, require

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]

# Window sums are differences of running sums; comparisons with δ allow for their rounding error.
ROUNDING = 1e-9


def probability_matrix(prob: npt.ArrayLike) -> FloatArray:
    """The table p_i^t [T, m] as float64; refuses an entry that is not a probability."""
    table = np.asarray(prob, dtype=np.float64)
    require(
        table.ndim == 2 and table.size > 0,
        f"probabilities must be a [rounds, clients] table with at least one entry, got shape {table.shape}",
    )
    wrong = np.argwhere(~((table >= 0.0) & (table <= 1.0)))
    if wrong.size:
        t, i = wrong[0]
        value = table[t, i]
        raise FedsweError(f"probability {value} of client {i} in round {t} is not in [0, 1]: correct or clip it")
    return table


def availability_trace(trace: npt.ArrayLike) -> BoolArray:
    """The 0/1 table 1{i∈A^t} [T, m] as booleans."""
    table = np.asarray(trace)
    require(
        table.ndim == 2 and table.size > 0,
        f"a trace must be a [rounds, clients] table with at least one entry, got shape {table.shape}",
    )
    flags = table.astype(np.bool_)
    require(np.array_equal(table, flags), "a trace holds only 0 and 1: pass availability, not probabilities")
    return flags


def check_confidence(confidence: float) -> None:
    """Refuse a confidence level outside (0, 1)."""
    require(0.0 < confidence < 1.0, f"confidence {confidence} must lie strictly between 0 and 1, e.g. 0.95")


def check_delta(delta: float) -> None:
    """Refuse a δ outside (0, 1], the range of Assumption 1."""
    require(0.0 < delta <= 1.0, f"delta {delta} must lie in (0, 1]")


def check_k(k: float) -> None:
    """Refuse an interpolation coefficient that is negative or not finite, or whose square leaves double precision."""
    require(math.isfinite(k) and k >= 0.0, f"k = {k} must be a finite number, at least 0")
    require(
        k == 0.0 or 1e-100 <= k <= 1e100,
        f"k = {k} cannot be distinguished from 0 or from infinity: use 1e-100 to 1e100",
    )


def _window_sums(running: FloatArray, period: int) -> FloatArray:
    complete = (len(running) - 1) // period
    return np.diff(running[: complete * period + 1 : period], axis=0)


def _running_sums(table: FloatArray) -> FloatArray:
    return np.concatenate([np.zeros((1, table.shape[1])), np.cumsum(table, axis=0)])


def window_means(prob: npt.ArrayLike, period: int) -> FloatArray:
    """(1/P) Σ_{t=nP}^{(n+1)P-1} p_i^t for every complete window n aligned at round 0: shape [⌊T/P⌋, m]."""
    table = probability_matrix(prob)
    require(
        1 <= period <= len(table),
        f"period {period} must be between 1 and the {len(table)} rounds given: shorten it or give more rounds",
    )
    return _window_sums(_running_sums(table), period) / period


def window_delta(prob: npt.ArrayLike, period: int) -> float:
    """δ(P) = min over clients and complete windows of the window mean (eq. prob lower).

    Assumption 1 needs δ > 0, hence a client that is absent for a whole window is an error.
    """
    means = window_means(prob, period)
    never = np.flatnonzero(~np.asarray(prob).any(axis=0))
    if never.size:
        raise FedsweError(
            f"client {never[0]} has probability 0 in every round: no period helps, leave it out or raise it"
        )
    n, i = np.unravel_index(int(np.argmin(means)), means.shape)
    require(
        means[n, i] > 0.0,
        f"client {i} has probability 0 in all of rounds {n * period}..{(n + 1) * period - 1}: "
        f"Assumption 1 fails for period {period}, use a longer one",
    )
    return float(means[n, i])


def delta_profile(prob: npt.ArrayLike) -> FloatArray:
    """δ(P) for P = 1..T (entry P-1), 0 where some client is absent for a whole window.

    Not monotone: multiples of a feasible period are feasible, other longer periods need not be. A period
    above T/2 is judged on a single window.
    """
    table = probability_matrix(prob)
    running = _running_sums(table)
    periods = range(1, len(table) + 1)
    return np.array([float(_window_sums(running, period).min()) / period for period in periods])


def smallest_period(profile: FloatArray, delta: float) -> int | None:
    """P_δ = min{P : δ(P) ≥ δ} of a ``delta_profile``; None when no period reaches δ (Assumption 1)."""
    check_delta(delta)
    feasible = np.flatnonzero(profile >= delta - ROUNDING)
    return int(feasible[0]) + 1 if feasible.size else None


def chernoff_lower(mean: npt.ArrayLike, trials: npt.ArrayLike, alpha: npt.ArrayLike) -> FloatArray:
    """Lower limit, at level 1-α, for the average of the means of independent variables in [0, 1].

    The smallest q ≤ x̄ with n·KL(x̄‖q) ≤ log(1/α) (Hoeffding 1963, Theorem 1). Finite-sample, and valid
    when the variables are not identically distributed, which Clopper-Pearson is not.
    """
    x = np.asarray(mean, dtype=np.float64)
    budget = -np.log(alpha) / np.asarray(trials, dtype=np.float64)
    shape = np.broadcast_shapes(x.shape, budget.shape)
    x = np.broadcast_to(x, shape)
    low, high = np.zeros(shape), x.copy()
    for _ in range(60):
        middle = (low + high) / 2.0
        outside = _bernoulli_divergence(x, middle) > budget
        low, high = np.where(outside, middle, low), np.where(outside, high, middle)
    return low


def chernoff_upper(mean: npt.ArrayLike, trials: npt.ArrayLike, alpha: npt.ArrayLike) -> FloatArray:
    """Upper limit at level 1-α: the mirror image of ``chernoff_lower``."""
    return 1.0 - chernoff_lower(1.0 - np.asarray(mean, dtype=np.float64), trials, alpha)


def _bernoulli_divergence(x: FloatArray, q: FloatArray) -> FloatArray:
    """KL(x‖q) = x log(x/q) + (1-x) log((1-x)/(1-q)), with 0 log 0 = 0; needs q ≤ x."""
    ratio = np.divide(x, q, out=np.ones_like(x), where=q > 0.0)
    rest = np.divide(1.0 - x, 1.0 - q, out=np.ones_like(x), where=x < 1.0)
    return x * np.log(ratio, out=np.zeros_like(x), where=x > 0.0) + (1.0 - x) * np.log(rest)


def profile_limits(profile: FloatArray, clients: int, confidence: float) -> tuple[FloatArray, FloatArray]:
    """Limits for the δ(P) of every P, from the ``delta_profile`` of a trace: each pair holds with that confidence.

    Assumes only that availability is independent across the rounds of a window (Assumption 1); probabilities may
    change from round to round. Chernoff limits, Bonferroni over all m⌊T/P⌋ windows and both sides. The minimum of
    noisy means is biased downward: read the limits, not the profile.
    """
    check_confidence(confidence)
    periods = np.arange(1, len(profile) + 1)
    alpha = (1.0 - confidence) / (2 * clients * (len(profile) // periods))
    return chernoff_lower(profile, periods, alpha), chernoff_upper(profile, periods, alpha)


def trace_period(trace: npt.ArrayLike, delta: float, confidence: float = 0.95) -> dict[str, int | None]:
    """P_δ of a trace: with probability ≥ ``confidence``, possible ≤ P_δ ≤ certified.

    ``period`` is the smallest P whose empirical δ(P) reaches δ; ``certified`` the smallest whose lower
    limit does; ``possible`` the smallest for which the upper limits of P and all its multiples do, as a feasible
    period makes its multiples feasible. Bonferroni over windows, both sides, and all T periods searched. None: in
    ``certified`` the trace is too short to prove one; in ``possible`` every period up to T is refuted.
    """
    flags = availability_trace(trace)
    profile, (rounds, clients) = delta_profile(flags), flags.shape
    lower, upper = profile_limits(profile, clients, 1.0 - (1.0 - confidence) / rounds)
    over_multiples = np.array([upper[period - 1 :: period].min() for period in range(1, rounds + 1)])
    found = {"period": profile, "possible": over_multiples, "certified": lower}
    return {name: smallest_period(values, delta) for name, values in found.items()}


def realised_staleness(trace: npt.ArrayLike) -> IntArray:
    """t - τ_i(t) [T, m] of a trace; τ_i(t) is i's last available round before t, -1 if there is none."""
    flags = availability_trace(trace)
    rounds = np.arange(len(flags))[:, None]
    last = np.maximum.accumulate(np.where(flags, rounds, -1), axis=0)
    before = np.concatenate([np.full((1, flags.shape[1]), -1), last[:-1]])
    return np.asarray(rounds - before, dtype=np.int64)


def trace_statistics(trace: npt.ArrayLike) -> dict[str, Any]:
    """What happened in a 0/1 trace [T, m] with at least one participation, and of each client [m].

    Gaps count rounds from one availability to the next, from round -1 on: ``longest_gap`` with the one still open after
    the last round, ``mean_gap`` of closed ones, i.e. the mean echo, infinite without any. ``tau_max`` is the largest
    t - τ_i(t), ``tau_avg`` the mean over rounds of the stalest client's. ``jain_index`` is (Σc)²/(mΣc²) of the
    participations c: 1 when equal, 1/m when one client has all.
    """
    flags = availability_trace(trace)
    require(flags.any(), "no client is available in the whole trace: check that 1 means available")
    rounds, clients = flags.shape
    staleness = realised_staleness(np.concatenate([flags, np.ones((1, clients), dtype=np.bool_)]))
    per_round, counts = flags.sum(axis=1), flags.sum(axis=0)
    # Echo identity (Prop. 1): the closed gaps of a client add up to τ_i(T) + 1.
    closed = (rounds + 1 - staleness[-1]).astype(np.float64)
    return {
        "mean_available": float(per_round.mean()),
        "empty_rounds": int((per_round == 0).sum()),
        "jain_index": float(counts.sum() ** 2 / (clients * (counts**2).sum())),
        "mean_staleness": float(staleness[:-1].mean()),
        "tau_avg": float(staleness[:-1].max(axis=1).mean()),
        "tau_max": int(staleness[:-1].max()),
        "participations": counts,
        "mean_gap": np.divide(closed, counts, out=np.full(clients, np.inf), where=counts > 0),
        "longest_gap": staleness.max(axis=0),
    }
