"""Information mixing: the matrix W of a round and ρ = λ2(E[W Wᵀ]) of a window.

The k virtual clients are always available and exchangeable. Replacing them by one coordinate along their
normalised sum, i.e. by a client that enters the round's average with weight √k, turns W into a symmetric
(m+1)×(m+1) matrix with the same spectrum except for zeros. This *reduced* form is used throughout; it also
gives ρ a meaning for every real k ≥ 0. Its consensus direction is (1,…,1,√k)/√(m+k).

For a window W = W^{(0)}⋯W^{(P-1)} is not symmetric. The consensus lemma multiplies the models from the left,
so it needs W Wᵀ = W^{(0)}⋯W^{(P-1)}W^{(P-1)}⋯W^{(0)}; WᵀW has another λ2.

The upper bound on ρ_k is 1 - gap, where the gap is far below the smallest double (about 1e-920 for m = k = P = 100):
its logarithm is computed.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedswe.errors import require
from fedswe.theory.assumption import (
    BoolArray,
    FloatArray,
    availability_trace,
    check_confidence,
    check_delta,
    check_k,
    chernoff_upper,
    probability_matrix,
)

QUADRATURE_STEP = 0.3  # relative error exp(-π²/step), about 1e-13
KRYLOV_STEPS = 80
KRYLOV_RESIDUAL = 1e-4


def check_interpolation(clients: int, k: float) -> None:
    """Refuse a k outside its range, and a single client without virtual clients."""
    check_k(k)
    require(clients > 1 or k > 0.0, "one client and k = 0 have nothing to mix: add clients or use k > 0")


def consensus_direction(clients: int, k: float) -> FloatArray:
    """The all-ones direction of the augmented system in reduced coordinates, of length 1."""
    return np.append(np.ones(clients), math.sqrt(k)) / math.sqrt(clients + k)


def second_eigenvalue(gram: FloatArray, k: float) -> float:
    """λ2 of a reduced E[W Wᵀ]: its largest eigenvalue orthogonal to the consensus direction."""
    ones = consensus_direction(len(gram) - 1, k)
    largest = float(np.linalg.eigvalsh(gram - np.outer(ones, ones))[-1])
    return min(max(largest, 0.0), 1.0)  # 0 ≤ W Wᵀ ≤ 1; only rounding leaves the range


def expected_gram(prob: npt.ArrayLike, k: float) -> FloatArray:
    """E[W Wᵀ] of the window ``prob`` [P, m], reduced, for any m, to about ten digits.

    The recursion of ``enumerated_gram`` without the sum over sets: by (n+k)^{-q} = ∫ s^{q-1} e^{-(n+k)s} ds,
    q = 1, 2, the clients are independent again, available with the tilted probability
    p_i x/(1-p_i+p_i x), x = e^{-s}, under the weight Π_i(1-p_i+p_i x). The integral is a trapezoidal sum over
    log s with about 150 nodes; all terms are positive, nothing cancels. O(P m²) per node.
    """
    table = probability_matrix(prob)
    clients = table.shape[1]
    check_interpolation(clients, k)
    # Every term contains an available client, or a virtual one: n + k is never below this.
    smallest = k if k > 0.0 else 1.0
    log_s = np.arange(math.log(1e-14 / (clients + k)), math.log(36.0 / smallest), QUADRATURE_STEP)
    s = np.exp(log_s)
    x = np.exp(-np.minimum(s, 690.0))  # beyond it x underflows, and x^n is 0 or 1 to double precision
    weight = QUADRATURE_STEP * s * np.exp(-k * s)
    gram = np.eye(clients + 1)
    for p in table[::-1]:
        gram = _expected_sandwich(gram, p[:, None], k, x, weight, weight * s)
    return gram


def _expected_sandwich(
    gram: FloatArray, p: FloatArray, k: float, x: FloatArray, single: FloatArray, double: FloatArray
) -> FloatArray:
    """E[W S W] for one round; W = D + uuᵀ/(n+k), D the absent clients, u = (1_A, √k).

    ``single`` and ``double`` integrate (n+k)^{-1} and (n+k)^{-2} over the nodes x. The columns of mean, away
    and spread are E u, 1 - E u (0 for the virtual coordinate, never absent) and Var u, one per node.
    """
    base = (1.0 - p) + p * x
    tilt = p * x / base
    virtual = np.full((1, x.size), math.sqrt(k))
    mean, away = np.vstack([tilt, virtual]), np.vstack([1.0 - tilt, 0.0 * virtual])
    spread = mean * away
    chance = np.exp(np.log(base).sum(axis=0))
    single, double = single * chance, double * chance
    diagonal = np.diag(gram)[:, None]
    image = gram @ mean
    # D S D
    absent = np.append(1.0 - p, 0.0)
    result = gram * np.outer(absent, absent)
    # D S uuᵀ/(n+k) and its transpose; d_i u_i = 0 removes l = i from Σ_l S_il u_l
    cross = (away * (image - diagonal * mean) * single) @ mean.T + gram * ((away * single) @ spread.T)
    # uuᵀ (uᵀSu)/(n+k)²; u_i² = u_i lets i, j ∈ A be conditioned on: E u moves by away_i e_i, Var u_i vanishes
    energy = (mean * image).sum(axis=0) + (spread * diagonal).sum(axis=0)
    shift = 2.0 * away * image + (away * away - spread) * diagonal
    half = (mean * (energy / 2.0 + shift) * double) @ mean.T
    result += cross + cross.T + half + half.T + 2.0 * gram * ((spread * double) @ spread.T)
    own = np.diag(gram) * absent + (mean * (energy + shift) * double).sum(axis=1)
    own[-1] = k * float((energy * double).sum())
    np.fill_diagonal(result, own)
    return result


def rho(prob: npt.ArrayLike, k: float) -> float:
    """ρ = λ2(E[W Wᵀ]) of the window ``prob`` [P, m]; 1 when a client is absent throughout."""
    return second_eigenvalue(expected_gram(prob, k), k)


def realised_rho(trace: npt.ArrayLike, k: float) -> float:
    """λ2(W Wᵀ) of the rounds that happened, ``trace`` [P, m]: ``rho`` with certain clients, in O(P m² + m³).

    It bounds what these rounds did to the consensus error. The λ2 of an expectation is smaller than the mean of
    such numbers: other windows leave other directions unmixed.
    """
    flags = availability_trace(trace)
    clients = flags.shape[1]
    check_interpolation(clients, k)
    rows = np.eye(clients + 1)
    for here in flags:
        _mix(rows, np.broadcast_to(here, (clients + 1, clients)), k)
    return second_eigenvalue(rows @ rows.T, k)


def rho_homogeneous(clients: int, p: float, k: float) -> float:
    """ρ_k for P = 1 and p_i = p, closed form. With B ~ Bin(m, p), e = E[(B/m)/(B+k)],
    a = E[B(B-1)/(m(m-1))/(B+k)] and c = E[1/(B+k)] the eigenvalues of E[W] are 1-p+e-a (m-1 times),
    1-p+e+(m-1)a+kc-1 (for k > 0), 0 and 1."""
    require(clients >= 1, f"{clients} clients: give at least one")
    probability_matrix([[p]])
    check_interpolation(clients, k)
    n = np.arange(clients + 1)
    share = binomial(clients, p) / np.where(n + k > 0.0, n + k, 1.0)
    if k == 0.0:
        share[0] = 0.0  # no client to average: W = I, and every term below has the factor 0/0 := 0
    kept = 1.0 - p + float(share @ n) / clients
    pair = float(share @ (n * (n - 1))) / (clients * max(clients - 1, 1))
    eigenvalues = [kept - pair] if clients > 1 else []
    if k > 0.0:
        eigenvalues.append(kept + (clients - 1) * pair + k * float(share.sum()) - 1.0)
    return max(0.0, *eigenvalues)


def binomial(trials: int, p: float) -> FloatArray:
    n = np.arange(trials + 1)
    if p in (0.0, 1.0):
        return np.where(n == p * trials, 1.0, 0.0)
    factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, trials + 1)))])
    log_chance = factorial[-1] - factorial - factorial[::-1] + n * math.log(p) + (trials - n) * math.log1p(-p)
    return np.asarray(np.exp(log_chance), dtype=np.float64)


def rho_limit(prob: npt.ArrayLike) -> float:
    """lim_{k→∞} ρ of the window ``prob`` [P, m]: max_i Π_t(1 - p_i^t).

    W tends to the identity on absent clients and 0 on available ones, not to the scaled all-ones matrix.
    """
    return float((1.0 - probability_matrix(prob)).prod(axis=0).max())


@dataclass(frozen=True)
class MixingEstimate:
    """ρ of a window from simulated availability: lower ≤ ρ ≤ upper with the probability asked for."""

    rho: float
    lower: float
    upper: float
    draws: int


def rho_monte_carlo(prob: npt.ArrayLike, k: float, draws: int, seed: int, confidence: float = 0.95) -> MixingEstimate:
    """ρ of the window ``prob`` [P, m] from simulated windows, with the interval of ``rho_from_windows``."""
    table = probability_matrix(prob)
    rng = np.random.default_rng(seed)
    windows = np.empty((max(draws, 0), *table.shape), dtype=np.bool_)
    for t, p in enumerate(table):
        windows[:, t] = rng.random((len(windows), p.size)) < p
    return rho_from_windows(windows, k, seed, confidence)


def rho_from_windows(windows: BoolArray, k: float, seed: int, confidence: float = 0.95) -> MixingEstimate:
    """ρ from independent windows of availability [R, P, m], which may be correlated inside a window.

    λ2 of an averaged matrix overestimates ρ, so the draws are split. The first half gives its λ2, θ, which is
    at least its average of ‖Wᵀv*‖² for the true eigenvector v*, and its own eigenvector v. The second half
    gives the mean of ‖Wᵀv‖² ∈ [0, 1], unbiased for vᵀE[W Wᵀ]v ≤ ρ. The interval is finite-sample: below, the
    empirical Bernstein limit of that mean (Maurer & Pontil 2009); above, the Chernoff limit of θ; each at
    half the error. For a simple λ2 both biases agree to leading order, hence the estimate is their midpoint.
    ``seed`` draws the start of the search for v.
    """
    check_confidence(confidence)
    fits = windows.ndim == 3 and windows.dtype == np.bool_
    require(fits, f"windows must be booleans [draws, rounds, clients], got {windows.dtype} {windows.shape}")
    draws, clients = len(windows), windows.shape[2]
    check_interpolation(clients, k)
    require(draws >= 4, f"{draws} draws are too few to split: use at least 4, better 1000")
    search, held_out = windows[: draws // 2], windows[draws // 2 :]
    start = np.random.default_rng([seed, 1]).standard_normal(clients + 1)  # not the stream of the windows
    theta, vector, residual = _leading_pair(search, k, start)
    energies = np.concatenate([(rows**2).sum(axis=1) for rows in _mixed(held_out, k, vector)])
    alpha = (1.0 - confidence) / 2.0
    log_term = math.log(2.0 / alpha)
    margin = math.sqrt(2.0 * energies.var(ddof=1) * log_term / energies.size)
    margin += 7.0 * log_term / (3.0 * (energies.size - 1))
    lower = max(0.0, float(energies.mean()) - margin)
    upper = float(chernoff_upper(min(1.0, theta + residual), len(search), alpha))
    return MixingEstimate((theta + float(energies.mean())) / 2.0, lower, upper, draws)


def _mix(vectors: FloatArray, available: BoolArray, k: float) -> None:
    """Replace every row y by W y in place, W of the same row's available set: O(m) each."""
    clients = vectors[:, :-1]
    weight = available.sum(axis=1) + k
    total = np.einsum("rm,rm->r", clients, available) + math.sqrt(k) * vectors[:, -1]
    mean = total / np.where(weight > 0.0, weight, 1.0)
    np.copyto(clients, mean[:, None], where=available)
    vectors[:, -1] = math.sqrt(k) * mean


def _mixed(windows: BoolArray, k: float, vector: FloatArray, back: bool = False) -> Iterator[FloatArray]:
    """Wᵀv of every window, or W Wᵀv with ``back``, in blocks of rows small enough for the cache."""
    rows = max(1, 2**16 // windows.shape[2])
    for start in range(0, len(windows), rows):
        block = windows[start : start + rows]
        vectors = np.tile(vector, (len(block), 1))
        rounds = list(range(block.shape[1]))
        for t in rounds + (rounds[-2::-1] if back else []):  # the last W is a projection: once is enough
            _mix(vectors, block[:, t], k)
        yield vectors


def _leading_pair(windows: BoolArray, k: float, direction: FloatArray) -> tuple[float, FloatArray, float]:
    """λ2 of the mean of W Wᵀ, its eigenvector and the residual: Lanczos from ``direction``, off consensus."""
    basis = consensus_direction(windows.shape[2], k)[None]
    images: list[FloatArray] = []
    while True:
        for _ in range(2):  # twice is enough (Kahan): keeps the basis orthogonal to rounding
            direction = direction - basis.T @ (basis @ direction)
        basis = np.vstack([basis, direction / np.linalg.norm(direction)])
        total = sum(rows.sum(axis=0) for rows in _mixed(windows, k, basis[-1], back=True))
        images.append(np.asarray(total) / len(windows))
        values, ritz = np.linalg.eigh(basis[1:] @ np.stack(images).T)
        vector = ritz[:, -1] @ basis[1:]
        residual = float(np.linalg.norm(ritz[:, -1] @ np.stack(images) - values[-1] * vector))
        if residual < KRYLOV_RESIDUAL or len(images) == min(windows.shape[2], KRYLOV_STEPS):
            return float(values[-1]), vector, residual
        direction = images[-1]


def log_gap(clients: int, k: float, delta: float, period: int) -> float:
    """The paper's spectral lemma as its proof supports it: log g with ρ_k ≤ 1 - g, for every real k.

    P = 1: g = [m²δ + k² + 2mk]² δ² / (8(m+k)⁴). Off-diagonal entries of E[W] are at least δ²/M between clients and
    δ/M towards virtual ones, hence the conductance Φ ≥ [m²δ + k² + 2mk] δ / (2(m+k)²), and Cheeger's inequality
    λ2 ≤ 1 - Φ²/2 squares the (m+k)².

    P > 1, k > 0: g = [m²δ + k² + 2mk]² δ² min(1, k)^{4P-2} / (8(m+k)^{4P+2}), eq. (block spectral). The proof walks
    through a virtual client and uses its self-loop weight 1/(|A|+k), which needs a whole one. With k < 1 the virtual
    mass keeps k/(|A|+k) per round; a walk there and back makes at most 2P-1 such steps, and Cheeger's inequality
    squares their product. As k → 0 the bound tends to 1, as ρ_k does for alternating groups.
    """
    require(clients >= 1, f"{clients} clients: give at least one")
    check_interpolation(clients, k)
    check_delta(delta)
    require(period >= 1, f"period {period} must be at least 1")
    log = 2.0 * math.log(clients**2 * delta + k**2 + 2.0 * clients * k) + 2.0 * math.log(delta) - math.log(8.0)
    if period == 1:
        return log - 4.0 * math.log(clients + k)
    require(k > 0.0, "the block bound needs k > 0: without interpolation a window may not mix at all")
    return log - (4 * period + 2) * math.log(clients + k) + (4 * period - 2) * math.log(min(1.0, k))
