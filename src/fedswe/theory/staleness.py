"""Staleness t - τ_i(t): its exact law for known probabilities, and bounds on its moments.

τ_i(t) is the last round before t in which client i was available, -1 if there was none. The same number
multiplies the update of a client that reports in round t: its echo.
"""

import numpy as np
import numpy.typing as npt

from fedswe.errors import require
from fedswe.theory.assumption import FloatArray, IntArray, check_delta, probability_matrix

# Echoes beyond a lag that every client exceeds with less than this probability are not tabulated.
NEGLIGIBLE = 1e-16


def staleness_moments(prob: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """E[t - τ_i(t)] and E[(t - τ_i(t))²] for the rounds t = 0..T, exact: shape [T+1, m] each, O(Tm).

    With X_0 = 1 and X_{t+1} = 1 + 1{i∉A^t} X_t, and A^t independent of X_t:
    E[X_{t+1}] = 1 + (1-p)E[X_t] and E[X²_{t+1}] = 1 + (1-p)(2E[X_t] + E[X²_t]).
    """
    table = probability_matrix(prob)
    first = np.ones((len(table) + 1, table.shape[1]))
    second = first.copy()
    for t, absent in enumerate(1.0 - table):
        first[t + 1] = 1.0 + absent * first[t]
        second[t + 1] = 1.0 + absent * (2.0 * first[t] + second[t])
    return first, second


def moment_bounds(period: int, delta: float) -> tuple[float, float]:
    """E[t - τ_i(t)] ≤ c + 1/δ and E[(t - τ_i(t))²] ≤ c² + (2c+1)/δ + 2(1-δ)/δ² with c = 2(P-1), for every t.

    The rounds before t = nP + φ end with up to P-1 rounds of a broken window and with φ of the current one; AM-GM gives
    (1-δ)^P only for the complete windows in between: P(t - τ_i(t) > r) ≤ (1-δ)^{max(r-c, 0)}.
    """
    require(period >= 1, f"period {period} must be at least 1")
    check_delta(delta)
    c = 2 * (period - 1)
    return c + 1.0 / delta, c**2 + (2 * c + 1) / delta + 2.0 * (1.0 - delta) / delta**2


def echo_counts(prob: npt.ArrayLike) -> FloatArray:
    """Expected number of participations with echo r over the T rounds: shape [R+1, m].

    N_i(r) = Σ_t p_i^t P(t - τ_i(t) = r); R is the longest lag that is not negligible. By the echo
    identity (Prop. 1) Σ_r r N_i(r) = E[τ_i(T)] + 1.
    """
    table = probability_matrix(prob)
    rounds, clients = table.shape
    counts = [np.zeros(clients)]
    longer = np.ones((rounds, clients))  # P(t - τ_i(t) > r-1) for t = r-1..T-1, r growing below
    for r in range(1, rounds + 1):
        # At t = r-1 the client was never available before: all remaining mass is at the echo t+1 = r.
        never = table[r - 1] * longer[0]
        still = longer[1:] * (1.0 - table[: rounds - r])
        counts.append(never + (table[r:] * (longer[1:] - still)).sum(axis=0))
        longer = still
        if not (longer > NEGLIGIBLE).any():
            break
    return np.stack(counts)


def echo_quantiles(counts: npt.ArrayLike, levels: npt.ArrayLike) -> IntArray:
    """Quantiles of the echo, given the number of participations with echo r = 0, 1, …: shape [levels].

    With N(r) = Σ_i N_i(r) of ``echo_counts`` the law is N(r)/Σ_r N(r), the long-run share of updates with echo r.
    """
    wanted = np.asarray(levels, dtype=np.float64)
    require(
        wanted.ndim == 1 and bool(((wanted > 0.0) & (wanted <= 1.0)).all()),
        "quantile levels must be a list of numbers in (0, 1]",
    )
    below = np.cumsum(counts)
    require(below[-1] > 0.0, "all probabilities are 0: no client ever reports")
    # Relative to the total, less rounding: level 1 is then always reached.
    reached = below >= wanted[:, None] * below[-1] * (1.0 - 1e-12)
    return np.asarray(reached.argmax(axis=1), dtype=np.int64)
