"""The counterexample of Proposition (counter single), solved for every k, group size and step.

Two groups alternate, M_1 in even rounds and M_2 in odd ones, with F_i(x) = ‖x - u_i‖²/2. After the first visits
every echo is 2. The server models x_1 after an even and x_2 after an odd round then satisfy, with h_g = |M_g|, ū_g
the group's mean optimum and a = ``visit_step``,

    k(x_1 - x_2) = -2a h_1(x_1 - ū_1),      k(x_2 - x_1) = -2a h_2(x_2 - ū_2).

By their sum the mean of the clients' models is the minimiser x* for every k, including k = 0. For equal
groups x_1 = x* + D and x_2 = x* - D with D = a h(ū_1 - ū_2)/(2(k + a h)). ``fedswe_trace_limit`` solves the same fixed
point for any 0/1 trace that repeats.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedswe.errors import FedsweError, require
from fedswe.theory.assumption import BoolArray, FloatArray, IntArray, availability_trace, check_k


@dataclass(frozen=True, eq=False)
class TwoGroupCycle:
    """The limit cycle of the counterexample; every model has the shape of one optimum."""

    after_first: FloatArray  # x_1, the server model after a round of M_1
    after_second: FloatArray  # x_2, the server model after a round of M_2
    client_mean: FloatArray  # the mean of the clients' models, the same after every round
    optimum: FloatArray  # x*, the mean of all optima


@dataclass(frozen=True, eq=False)
class TraceLimit:
    """FedSWE's limit cycle under a repeated trace, as weights on the optima; row t: after round t."""

    server: FloatArray  # [P, m]
    client_mean: FloatArray  # [P, m]
    spectral_radius: float  # of the map of one period: the cycle attracts when it is below 1


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Algorithm 1 on quadratics; entry t is the state before round t."""

    server: FloatArray  # [T+1, ...]
    clients: FloatArray  # [T+1, m, ...]


def two_group_cycle(first: npt.ArrayLike, second: npt.ArrayLike, step: float, k: float) -> TwoGroupCycle:
    """Closed form for the optima ``first`` [h_1] or [h_1, d] of M_1 and ``second`` of M_2, any sizes.

    x_1 - x_2 = (ū_1 - ū_2)/(1 + k(1/h_1 + 1/h_2)/(2a)), then x_1 = ū_1 - k(x_1 - x_2)/(2a h_1), likewise x_2.
    """
    one, two = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    require(
        one.ndim >= 1 and one.size > 0 and two.size > 0 and one.shape[1:] == two.shape[1:],
        "each group needs at least one optimum, and all optima one dimension",
    )
    _check_step(step, k)
    h1, h2 = len(one), len(two)
    mean1, mean2 = np.asarray(one.mean(axis=0)), np.asarray(two.mean(axis=0))
    gap = (mean1 - mean2) / (1.0 + k * (1 / h1 + 1 / h2) / (2.0 * step))
    after_first = np.asarray(mean1 - k * gap / (2.0 * step * h1))
    after_second = np.asarray(mean2 + k * gap / (2.0 * step * h2))
    return TwoGroupCycle(
        after_first,
        after_second,
        client_mean=np.asarray((h1 * after_first + h2 * after_second) / (h1 + h2)),
        optimum=np.asarray((h1 * mean1 + h2 * mean2) / (h1 + h2)),
    )


def two_group_trace(h1: int, h2: int) -> BoolArray:
    """One period of the counterexample's availability, [2, h_1 + h_2]."""
    require(h1 >= 1 and h2 >= 1, f"groups of {h1} and {h2} clients: each needs at least one")
    in_first = np.arange(h1 + h2) < h1
    return np.stack([in_first, ~in_first])


def fedswe_trace_limit(trace: npt.ArrayLike, step: float, k: float) -> TraceLimit:
    """FedSWE's limit cycle when the 0/1 ``trace`` [P, m] repeats: P linear equations, one per server model X_t.

    A client of round t holds the server model of its last visit τ_i, in this period or the one before, so

        (|A|+k) X_t = Σ_{i∈A}[(1 - a e_i) X_{τ_i} + a e_i u_i] + k X_{t-1},    X_t = X_{t-1} when A = ∅.
    """
    visits = availability_trace(trace)
    _check_step(step, k)
    never = np.flatnonzero(~visits.any(axis=0))
    if never.size:
        raise FedsweError(f"client {never[0]} is never available in the trace and keeps its start: leave it out")
    period, clients = visits.shape
    same, earlier = np.zeros((period, period)), np.zeros((period, period))  # X_τ of this period, of the one before
    source = np.zeros((period, clients))
    last, gap = _last_visits(visits)
    for t, here in enumerate(visits):
        share = 1.0 / (here.sum() + k) if here.any() else 0.0
        held, echo = last[t, here], gap[t, here]
        recent = held < t
        np.add.at(same[t], held[recent], share * (1.0 - step * echo[recent]))
        np.add.at(earlier[t], held[~recent], share * (1.0 - step * echo[~recent]))
        source[t, here] = share * step * echo
        (same if t > 0 else earlier)[t, t - 1] += k * share if here.any() else 1.0
    transition = np.linalg.solve(np.eye(period) - same, earlier)
    try:
        server = np.linalg.solve(np.eye(period) - same - earlier, source).astype(np.float64)
    except np.linalg.LinAlgError:
        raise FedsweError(f"no single limit cycle with step {step} and k = {k}: change the step") from None
    after = np.where(visits, np.arange(period)[:, None], last)  # whose server model each client holds
    client_mean = np.stack([server[rounds].mean(axis=0) for rounds in after])
    return TraceLimit(server, client_mean, float(np.abs(np.linalg.eigvals(transition)).max()))


def _last_visits(visits: BoolArray) -> tuple[IntArray, IntArray]:
    """For every round and client the last visit before it: its round modulo P, and how long ago it was."""
    last, gap = np.zeros(visits.shape, dtype=np.int64), np.zeros(visits.shape, dtype=np.int64)
    period, clients = visits.shape
    ago = np.zeros(clients, dtype=np.int64)
    for t in range(2 * period):  # the first pass finds the visits of the period before
        ago += 1
        last[t % period], gap[t % period] = (t - ago) % period, ago
        ago[visits[t % period]] = 0
    return last, gap


def fedswe_trajectory(
    trace: npt.ArrayLike, centers: npt.ArrayLike, step: float, k: float, start: npt.ArrayLike
) -> Trajectory:
    """Algorithm 1 on F_i = ‖x - u_i‖²/2 over the rounds of ``trace`` [T, m]; optima [m] or [m, d]. Figure 5."""
    visits = availability_trace(trace)
    optima = np.asarray(centers, dtype=np.float64)
    require(
        optima.ndim >= 1 and len(optima) == visits.shape[1],
        f"the trace has {visits.shape[1]} clients, the optima have shape {optima.shape}: give one per client",
    )
    _check_step(step, k)
    server = np.empty((len(visits) + 1, *optima.shape[1:]))
    clients = np.empty((len(visits) + 1, *optima.shape))
    server[0] = clients[0] = np.asarray(start, dtype=np.float64)
    last = np.full(len(optima), -1)
    for t, here in enumerate(visits):
        server[t + 1], clients[t + 1] = server[t], clients[t]
        if not here.any():
            continue  # Algorithm 1 gives x^{t+1} = x^t for k > 0; for k = 0 its 0/0 is read the same way
        held = clients[t, here]
        echo = (t - last[here]).reshape(-1, *[1] * (optima.ndim - 1))
        echoed = held + step * echo * (optima[here] - held)
        server[t + 1] = (echoed.sum(axis=0) + k * server[t]) / (len(held) + k)
        clients[t + 1, here] = server[t + 1]
        last[here] = t
    return Trajectory(server, clients)


def _check_step(step: float, k: float) -> None:
    require(math.isfinite(step) and step > 0.0, f"step {step} must be a positive number")
    check_k(k)
