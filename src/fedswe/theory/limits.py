"""The limits of the expected models of FedAvg and FedSWE on quadratics of equal curvature, exactly.

F_i(x) = c‖x - u_i‖²/2, as in Example 1 and eq. (counter global obj). A visit, i.e. a round in which client i is
available, moves a model towards u_i by the fraction a = η_g(1 - (1 - η_l c)^s), so algorithms are affine in the models:

    FedAvg active  x⁺ = x + a·mean_{i∈A}(u_i - x)              (A = ∅: x stays)
    FedAvg all     x⁺ = x + (a/m) Σ_{i∈A}(u_i - x)
    FedSWE         x⁺ = (Σ_{i∈A}[x_i + a e_i(u_i - x_i)] + k x)/(|A|+k),   e_i = t - τ_i(t)

A^t is independent of everything before round t (Assumption 1), so expectations factor and the means obey closed
linear recursions. FedSWE's needs, besides E x and E x_i, only E[e_i x_i]: absence turns e_i into e_i + 1 and
keeps x_i, presence gives e_i = 1 and x_i = x⁺. Probabilities of period P lead to a cycle of P means, found as the
fixed point of one period; 0/1 probabilities give the deterministic cycle of a repeated trace. Stochastic
gradients whose noise has mean zero change nothing.

A limit is given as weights on the optima: ``limit.server @ u`` are the models. Unbiased means all weights 1/m.
A limit of the mean does not bound the spread around it.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fedswe.errors import FedsweError, require
from fedswe.theory.assumption import FloatArray, availability_trace, check_k, probability_matrix, realised_staleness

SQUARINGS = 40  # 2^40 periods decide whether a mean converges
DIVERGED = 1e12
BLOCK = 2**22  # numbers in the arrays of several rounds, 32 MB


@dataclass(frozen=True, eq=False)
class ExpectedLimit:
    """lim E of the models as weights on the clients' optima; row t: after the rounds ≡ t modulo P."""

    server: FloatArray  # [P, m], the server model
    client_mean: FloatArray  # [P, m], the mean over clients of the model each last received


@dataclass(frozen=True, eq=False)
class TraceLimit(ExpectedLimit):
    """FedSWE's limit cycle under a repeated trace."""

    spectral_radius: float  # of the map of one period: the cycle attracts when it is below 1


def visit_step(local_lr: float, steps: int, lr: float = 1.0, curvature: float = 1.0) -> float:
    """a = η_g(1 - (1 - η_l c)^s): the fraction of the way to u_i that one visit of s local steps covers."""
    require(
        local_lr > 0 and lr > 0 and curvature > 0,
        f"local_lr = {local_lr}, lr = {lr} and curvature = {curvature} must all be positive",
    )
    require(steps >= 1, f"{steps} local steps: use at least 1")
    return float(lr * (1.0 - (1.0 - local_lr * curvature) ** steps))


def fedavg_active_limit(prob: npt.ArrayLike, step: float) -> ExpectedLimit:
    """FedAvg over active clients under one period ``prob`` [P, m], with a = ``step`` (see ``visit_step``).

    E x^{t+1} = (1 - a q_t) E x^t + a Σ_i w_i^t u_i with w_i^t = E[1{i∈A^t}/|A^t|], q_t = Σ_i w_i^t. For P = 1 the
    limit is Σ w_i u_i/Σ w_i for every step. A client receives x^t at the start of a round it is available in; the
    client mean is NaN when some client never is.
    """
    table = probability_matrix(prob)
    return _fedavg_limit(table, aggregation_weights(table), step)


def fedavg_all_limit(prob: npt.ArrayLike, step: float) -> ExpectedLimit:
    """FedAvg over all clients: as ``fedavg_active_limit`` with w_i^t = p_i^t/m."""
    table = probability_matrix(prob)
    return _fedavg_limit(table, table / table.shape[1], step)


def _fedavg_limit(prob: FloatArray, weights: FloatArray, step: float) -> ExpectedLimit:
    kept = 1.0 - step * weights.sum(axis=1)  # the part of E x^t that survives round t
    require(prob.any(), "no client is ever available: give at least one a positive probability")
    require(
        step > 0 and abs(np.prod(kept)) < 1.0,
        f"FedAvg does not converge with step {step}: choose learning rates whose step lies in (0, 2)",
    )
    before = _cycle(kept[:, None], step * weights)  # what a client available in round t receives
    return ExpectedLimit(kept[:, None] * before + step * weights, _last_visit(prob) @ before)


def _cycle(kept: FloatArray, gained: FloatArray) -> FloatArray:
    """The v before each round that v ← kept[t]·v + gained[t] reproduces after one period."""
    total = np.zeros_like(gained[0])
    for keep, gain in zip(kept, gained, strict=True):
        total = keep * total + gain
    cycle = [total / (1.0 - np.prod(kept, axis=0))]
    for keep, gain in zip(kept[:-1], gained[:-1], strict=True):
        cycle.append(keep * cycle[-1] + gain)
    return np.stack(cycle)


def _last_visit(prob: FloatArray) -> FloatArray:
    """[P, P]: after round t, the expected fraction of clients last available in a round ≡ t' modulo P.

    NaN when some client is never available.
    """
    period, clients = prob.shape
    fraction = np.full((period, period), np.nan)
    if not prob.any(axis=0).all():
        return fraction
    last = np.zeros((clients, period))
    for t in range(2 * period):  # the first period leads to the periodic start, the second is recorded
        if t == period:
            last /= 1.0 - (1.0 - prob).prod(axis=0)[:, None]
        last *= 1.0 - prob[t % period][:, None]
        last[:, t % period] += prob[t % period]
        fraction[t % period] = last.mean(axis=0)
    return fraction


def fedswe_limit(prob: npt.ArrayLike, step: float, k: float) -> ExpectedLimit:
    """FedSWE under one period ``prob`` [P, m] with interpolation coefficient k and a = ``step``. O(P m³).

    X = E x, A_i = E x_i and B_i = E[e_i x_i] obey, with D_j = A_j - a B_j + a E[e_j] u_j and the weights w, W of
    ``aggregation_weights`` and ``joint_aggregation_weights`` in round t,

        X ← Σ_j w_j D_j + (1 - Σ_j w_j) X,      Y_i = E[x^{t+1} 1{i∈A^t}] = Σ_j W_ij D_j + (p_i - Σ_j W_ij) X,
        A_i ← (1-p_i) A_i + Y_i,                 B_i ← (1-p_i)(A_i + B_i) + Y_i.

    1 - Σ_j w_j is E[k/(|A|+k)], or P(A = ∅) for k = 0. Averaged over the period the client mean is exactly the
    minimiser of F: Σ_i z_i of Definition (auxiliary sequence) moves by -a Σ_i(x_i - u_i) in every round.
    """
    table = probability_matrix(prob)
    period, clients = table.shape
    require(step > 0, f"step {step} must be positive")
    _check_every_client(table)
    echo = _cycle(1.0 - table, np.ones_like(table))  # E e_i, from e ← 1 + 1{i∉A} e
    joint = joint_aggregation_weights(table, k)
    # Columns: the response to each entry of the state (X, A, B), then to each client's optimum.
    size = 2 * clients + 1
    response = np.hstack([np.eye(size), np.zeros((size, clients))])
    for t in range(period):
        response = _fedswe_round(table[t], joint[t], step, response, echo[t])
    transition, source = response[:, :size], response[:, size:]
    require(
        _contracts(transition),
        f"FedSWE's mean does not converge with step {step} and k = {k}: choose smaller learning rates",
    )
    state = np.linalg.solve(np.eye(size) - transition, source)
    server, client_mean = np.empty_like(table), np.empty_like(table)
    for t in range(period):
        state = _fedswe_round(table[t], joint[t], step, state, echo[t])
        server[t], client_mean[t] = state[0], state[1 : clients + 1].mean(axis=0)
    return ExpectedLimit(server, client_mean)


def echo_gain(prob: npt.ArrayLike, step: float) -> float:
    """max a·E[e_i²]/E[e_i] over the rounds and clients of one period ``prob`` [P, m], e_i the echo of a visit.

    E[(1 - a e_i)²] < 1, a visit contracts in mean square, exactly when this number is below 2. Above it single
    runs can spread without bound, by rare long absences, although their mean converges to ``fedswe_limit``.
    """
    table = probability_matrix(prob)
    require(step > 0, f"step {step} must be positive")
    _check_every_client(table)
    missed = 1.0 - table
    first = _cycle(missed, np.ones_like(table))
    second = _cycle(missed, 1.0 + 2.0 * missed * first)  # e² ← 1 + 1{i∉A}(2e + e²)
    visited = table > 0.0
    return step * float((second[visited] / first[visited]).max())


def _fedswe_round(prob: FloatArray, joint: FloatArray, step: float, state: FloatArray, echo: FloatArray) -> FloatArray:
    """One round of (X, A, B) [2m+1, n] with E e [m]; the last m columns are the responses to the optima."""
    clients, p = len(prob), prob[:, None]
    x, a, b = state[:1], state[1 : clients + 1], state[clients + 1 :]
    echoed = a - step * b  # E[x_i + a e_i(u_i - x_i)], what a client would report
    echoed[:, -clients:] += step * np.diag(echo)
    weights = np.diagonal(joint)[None, :]
    server = weights @ echoed + (1.0 - weights.sum()) * x
    present = joint @ echoed + (p - joint.sum(axis=1, keepdims=True)) * x
    return np.vstack([server, (1.0 - p) * a + present, (1.0 - p) * (a + b) + present])


def _contracts(transition: FloatArray) -> bool:
    """Whether the powers of ``transition`` tend to 0, by repeated squaring: faster than its eigenvalues."""
    power = transition
    for _ in range(SQUARINGS):
        size = float(np.abs(power).sum(axis=1).max())
        if not 1.0 <= size <= DIVERGED:
            return size < 1.0
        power = power @ power
    return False


def _check_every_client(prob: npt.NDArray[np.generic]) -> None:
    never = np.flatnonzero(~prob.any(axis=0))
    if never.size:
        raise FedsweError(
            f"client {never[0]} is never available and keeps its start: leave it out, or make it available in a round"
        )


def fedswe_trace_limit(trace: npt.ArrayLike, step: float, k: float) -> TraceLimit:
    """FedSWE's limit cycle when the 0/1 ``trace`` [P, m] repeats: P linear equations, one per server model X_t.

    A client of round t holds the server model of its last visit τ_i, in this period or the one before, so

        (|A|+k) X_t = Σ_{i∈A}[(1 - a e_i) X_{τ_i} + a e_i u_i] + k X_{t-1},    X_t = X_{t-1} when A = ∅.
    """
    visits = availability_trace(trace)
    require(math.isfinite(step) and step > 0.0, f"step {step} must be a positive number")
    check_k(k)
    _check_every_client(visits)
    period, clients = visits.shape
    same, earlier = np.zeros((period, period)), np.zeros((period, period))  # X_τ of this period, of the one before
    source = np.zeros((period, clients))
    gap = realised_staleness(np.concatenate([visits, visits]))[period:]  # rounds since the last visit of each client
    last = (np.arange(period)[:, None] - gap) % period  # and which round that was, modulo the period
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


def fedswe_trajectory(
    trace: npt.ArrayLike, centers: npt.ArrayLike, step: float, k: float, start: float
) -> tuple[FloatArray, FloatArray]:
    """The models of server [T+1] and clients [T+1, m] before each round and at the end, by Algorithm 1. Figure 5.

    F_i = (x - u_i)²/2 over the rounds of ``trace`` [T, m], with the optima ``centers`` [m].
    """
    visits = availability_trace(trace)
    optima = np.asarray(centers, dtype=np.float64)
    require(
        optima.shape == visits.shape[1:],
        f"the trace has {visits.shape[1]} clients, the optima have shape {optima.shape}: give one per client",
    )
    require(math.isfinite(step) and step > 0.0, f"step {step} must be a positive number")
    check_k(k)
    server, clients = np.empty(len(visits) + 1), np.empty((len(visits) + 1, len(optima)))
    server[0] = clients[0] = start
    staleness = realised_staleness(visits)
    for t, here in enumerate(visits):
        server[t + 1], clients[t + 1] = server[t], clients[t]
        if not here.any():
            continue  # Algorithm 1 gives x^{t+1} = x^t for k > 0; for k = 0 its 0/0 is read the same way
        held, echo = clients[t, here], staleness[t, here]
        echoed = held + step * echo * (optima[here] - held)
        server[t + 1] = (echoed.sum() + k * server[t]) / (len(held) + k)
        clients[t + 1, here] = server[t + 1]
    return server, clients


def fedavg_bias_map(p1: npt.ArrayLike, p2: npt.ArrayLike, centers: tuple[float, float] = (0.0, 100.0)) -> FloatArray:
    """Figure 2: |x_output - x*| of FedAvg over active clients, two clients; entry [i, j] at (p1[i], p2[j]).

    x_output = (w_1 u_1 + w_2 u_2)/(w_1 + w_2), w_1 = p_1(1 - p_2/2), w_2 = p_2(1 - p_1/2), for every step.
    At (0, 0) no client is ever available: NaN.
    """
    first, second = np.meshgrid(np.asarray(p1, np.float64), np.asarray(p2, np.float64), indexing="ij")
    weights = aggregation_weights(np.stack([first.ravel(), second.ravel()], axis=1))
    with np.errstate(invalid="ignore"):  # 0/0
        output = weights @ np.asarray(centers) / weights.sum(axis=1)
    return np.asarray(np.abs(output - np.mean(centers)).reshape(first.shape))


# How much of a round's aggregate belongs to each client, in expectation over the available clients. Everything is a
# moment of the Poisson-binomial number of available clients, and follows from its generating function, with
# f_j(y) = 1 - p_j + p_j y, because 1/(n+k+1) is the integral of y^{n+k} over [0, 1]:
#
#     E[1{i∈A}/(|A|+k)]    = p_i     ∫ y^k     Π_{l≠i}   f_l(y) dy
#     E[1{i,j∈A}/(|A|+k)]  = p_i p_j ∫ y^{k+1} Π_{l≠i,j} f_l(y) dy
#
# The integrands are y^k times a polynomial of degree below m, so Gauss-Jacobi quadrature with ⌈m/2⌉ nodes is exact for
# every real k ≥ 0. All its terms are positive: nothing cancels. O(m²) for the first, O(m³) for all pairs.
def aggregation_weights(prob: npt.ArrayLike, k: float = 0.0) -> FloatArray:
    """E[1{i∈A^t}/(|A^t|+k)] for every round and client of ``prob`` [P, m].

    With k = 0 it is the weight FedAvg over active clients gives to client i; a row sums to P(A^t ≠ ∅).
    """
    table = probability_matrix(prob)
    rows, which = np.unique(table, axis=0, return_inverse=True)
    size = max(1, BLOCK // rows.shape[1] ** 2)
    parts = []
    for first in range(0, len(rows), size):
        _, mass, share = _round_quadrature(rows[first : first + size], k)
        parts.append(np.matmul(mass[:, None, :], share)[:, 0])
    return np.concatenate(parts)[which.reshape(-1)]


def joint_aggregation_weights(prob: npt.ArrayLike, k: float = 0.0) -> list[FloatArray]:
    """E[1{i,j∈A^t}/(|A^t|+k)] [m, m] for every round of ``prob`` [P, m]; the diagonal holds ``aggregation_weights``.

    Rounds with equal probabilities share one array.
    """
    table = probability_matrix(prob)
    rows, which = np.unique(table, axis=0, return_inverse=True)
    distinct = []
    for row in rows:
        nodes, mass, share = _round_quadrature(row, k)
        distinct.append((share * (mass * nodes)[:, None]).T @ share)
        np.fill_diagonal(distinct[-1], mass @ share)
    return [distinct[index] for index in which.reshape(-1)]


def _round_quadrature(p: FloatArray, k: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Nodes y, masses weight·Π_l f_l(y) [..., nodes], and shares p_i/f_i(y) [..., nodes, m], for ``p`` [..., m]."""
    nodes, weights = jacobi_quadrature((p.shape[-1] + 1) // 2, k)
    p = p[..., None, :]
    factors = 1.0 - p + p * nodes[:, None]  # the nodes lie inside (0, 1): no factor vanishes
    mass = weights * np.exp(np.log(factors).sum(axis=-1))
    return nodes, mass, p / factors


@lru_cache(maxsize=32)
def jacobi_quadrature(count: int, k: float) -> tuple[FloatArray, FloatArray]:
    """Nodes y and weights w with Σ w g(y) = ∫_0^1 y^k g(y) dy for every polynomial g of degree below 2·count.

    Golub-Welsch: the nodes are the eigenvalues of the recurrence matrix of the Jacobi polynomials with exponents
    (0, k), the weights the squared first entries of its eigenvectors.
    """
    require(count >= 1, f"{count} quadrature nodes: use at least one")
    check_k(k)
    n = np.arange(1, count)
    diagonal = np.append(k / (k + 2.0), k**2 / ((2 * n + k) * (2 * n + k + 2)))
    beside = 2 * n * (n + k) / ((2 * n + k) * np.sqrt((2 * n + k) ** 2 - 1))
    values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1))
    nodes, weights = (1.0 + values) / 2.0, vectors[0] ** 2 / (k + 1.0)
    for shared in (nodes, weights):
        shared.setflags(write=False)  # the cache returns the same arrays to every caller
    return nodes, weights
