"""How much of a round's aggregate belongs to each client, in expectation over the available clients.

Clients are available independently (Assumption 1). Everything here is a moment of the Poisson-binomial number
of available clients, and follows from its generating function, with f_j(y) = 1 - p_j + p_j y, because 1/(n+k+1)
is the integral of y^{n+k} over [0, 1]:

    E[1{i∈A}/(|A|+k)]    = p_i     ∫ y^k     Π_{l≠i}   f_l(y) dy
    E[1{i,j∈A}/(|A|+k)]  = p_i p_j ∫ y^{k+1} Π_{l≠i,j} f_l(y) dy

The integrands are y^k times a polynomial of degree below m, so Gauss-Jacobi quadrature with ⌈m/2⌉ nodes is exact
for every real k ≥ 0. All its terms are positive: nothing cancels. O(m²) for the first, O(m³) for all pairs.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from fedswe.errors import require
from fedswe.theory.assumption import FloatArray, check_k, probability_matrix

BLOCK = 2**22  # numbers in the arrays of several rounds, 32 MB


def aggregation_weights(prob: npt.ArrayLike, k: float = 0.0) -> FloatArray:
    """E[1{i∈A^t}/(|A^t|+k)] for every round and client of ``prob`` [P, m].

    With k = 0 it is the weight FedAvg over active clients gives to client i; a row sums to P(A^t ≠ ∅).
    """
    table = probability_matrix(prob)
    rows, which = np.unique(table, axis=0, return_inverse=True)
    size = max(1, BLOCK // rows.shape[1] ** 2)
    parts = [_weights(rows[first : first + size], k) for first in range(0, len(rows), size)]
    return np.concatenate(parts)[which.reshape(-1)]


def joint_aggregation_weights(prob: npt.ArrayLike, k: float = 0.0) -> list[FloatArray]:
    """E[1{i,j∈A^t}/(|A^t|+k)] [m, m] for every round of ``prob`` [P, m]; the diagonal holds ``aggregation_weights``.

    Rounds with equal probabilities share one array.
    """
    table = probability_matrix(prob)
    rows, which = np.unique(table, axis=0, return_inverse=True)
    distinct = [_joint_weights(row, k) for row in rows]
    return [distinct[index] for index in which.reshape(-1)]


def _weights(p: FloatArray, k: float) -> FloatArray:
    """The weights of several rounds at once, ``p`` [n, m]."""
    _, mass, share = _round_quadrature(p, k)
    return np.asarray(np.matmul(mass[:, None, :], share)[:, 0])


def _joint_weights(p: FloatArray, k: float) -> FloatArray:
    nodes, mass, share = _round_quadrature(p, k)
    joint: FloatArray = (share * (mass * nodes)[:, None]).T @ share
    np.fill_diagonal(joint, mass @ share)
    return joint


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
