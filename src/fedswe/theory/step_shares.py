"""Each client's expected share of the steps, for weights that are divided by their sum and independent availability.

Client i is available in every round with probability p_i, independently of other clients and rounds. A step is
Σ_i X_i U_i / Σ_i X_i with weights X_i that are independent over clients:

    interval weights   X_i = p_i^-power 1{i∈A}
    decayed memory     X_i = decay^(age of i's last update) (decay + (1 - decay)/p_i)^power

(the participation intervals of the algorithms are estimates of 1/p_i, exact in the long run). The age is geometric,
P(age = n) = p(1-p)^n. From 1/Σ X = ∫ exp(-s Σ X) ds over s > 0,

    E[X_i/Σ_j X_j] = ∫ E[X_i exp(-s X_i)] Π_{j≠i} E[exp(-s X_j)] ds.

With s = e^z the integrand is analytic and decays exponentially on both sides: the trapezoidal rule converges faster
than any power. Rounds without reports make no step; given such a round all ages are one larger, which multiplies all X
by decay and changes no ratio, so that the shares of decayed memory are the same with and without them.

A divisor of max(Σ_j X_j, c) with c = least m has no such integral. For few clients all sets are enumerated. For many,
f(w) = 1/max(w, c) is written as a cosine series on [0, T], T the sum of all weights, whose coefficients are cosine
integrals; E[f(X_i + Σ_{j≠i} X_j)] is then a sum over products of characteristic functions. The series is cut after
32,768 terms: a relative error of 1e-5 at most where the products do not fall with the frequency, else far less.

With rates that tend to 0, an algorithm ends at the minimiser of Σ_i share_i F_i. Unbiased means shares of 1/m.
"""

import numpy as np
import numpy.typing as npt
from scipy.special import sici

from fedswe.errors import FedsweError, require
from fedswe.theory.assumption import FloatArray, probability_matrix

_STEP = 0.05  # of the trapezoidal rule in z
_NEGLIGIBLE = 1e-17
ENUMERATED = 12  # clients whose sets are enumerated
_ITERATIONS = 10_000
_TERMS, _TOGETHER = 2**15, 2**11  # of the cosine series


def interval_shares(prob: npt.ArrayLike, power: float, least: float = 0.0) -> FloatArray:
    """[m], interval weights: the parts of the expected step, which add up to 1.

    power = 0 is FedAvg over active clients. With `least` > 0 rounds count by the length of their steps; power = 1 with
    a `least` that no sum of weights exceeds is FedAU, without bias.
    """
    p = _positive(prob)
    weights = p**-power
    if len(p) == 1:
        return np.ones(1)
    if least > 0:
        parts = p * weights * _inverse_of_larger(p, weights, least * len(p))
        return np.asarray(parts / parts.sum())
    # The factors of the absent do not vanish for s → ∞; that of the client itself falls faster than any power.
    z = _nodes(weights.min(), weights.max(), tail=1.0)
    decayed = np.exp(-np.exp(z)[:, None] * weights)
    absent_or = 1.0 - p + p * decayed
    own = p * weights * decayed
    return _integral(z, own, absent_or, complete=False) / (1.0 - np.prod(1.0 - p))


def extrapolated_shares(
    prob: npt.ArrayLike, centers: npt.ArrayLike, power: float = 1.0, least: float = 1.0, longest: float = 10.0
) -> FloatArray:
    """[m], interval extrapolation on quadratics of equal curvature with the minima `centers` [m, d], at its limit.

    A round's step is lengthened by how much its clients disagree, which depends on the model x: the shares at x give
    the next x = Σ_i share_i u_i, until nothing changes. All sets of clients are enumerated: give few.
    """
    p, u = _positive(prob), np.asarray(centers, np.float64)
    require(len(u) == len(p), f"{len(p)} probabilities and {len(u)} centers: give one row per client")
    require(len(p) <= ENUMERATED, f"{len(p)} clients: at most {ENUMERATED} can be enumerated")
    there, chance = _sets(p)
    weights = there[1:] * p**-power  # without the empty set
    total = weights.sum(axis=1)
    mean = weights @ u / total[:, None]
    shares = np.full(len(p), 1 / len(p))
    for _ in range(_ITERATIONS):
        x = shares @ u
        square = weights @ ((u - x) ** 2).sum(axis=1) / total
        eta = np.clip(square / np.maximum(2 * ((mean - x) ** 2).sum(axis=1), 1e-300), 1.0, longest)
        parts = (chance[1:] * eta / np.maximum(total, least * len(p))) @ weights
        before, shares = shares, np.asarray(parts / parts.sum())
        if np.abs(shares - before).max() < 1e-13:
            return shares
    raise FedsweError("the limit was not found: there are several, or none")


def memory_shares(prob: npt.ArrayLike, decay: float, power: float = 1.0) -> FloatArray:
    """[m], decayed memory; decay = 0 is interval weights. As decay tends to 1, all shares tend to 1/m."""
    p = _positive(prob)
    require(0 <= decay < 1, f"decay must be at least 0 and below 1, not {decay:g}")
    if decay == 0:
        return interval_shares(prob, power)
    first = (decay + (1 - decay) / p) ** power  # the weight of an update of this round
    if len(p) == 1:
        return np.ones(1)
    # The product of the E[exp(-s X_j)] falls like s^-tail, with tail = Σ_j log(1-p_j)/log(decay).
    missed = np.minimum(-np.log1p(-np.minimum(p, 1 - 1e-16)), 40.0)
    z = _nodes(first.min(), first.max(), tail=min(missed.sum() / -np.log(decay), 1.0))
    s = np.exp(z)
    product, own = np.empty((len(z), len(p))), np.empty((len(z), len(p)))
    for i, (chance, weight) in enumerate(zip(p, first, strict=True)):
        total, moment, left, x = np.zeros_like(s), np.zeros_like(s), 1.0, weight
        while left > _NEGLIGIBLE and s[-1] * x > _NEGLIGIBLE:
            term = chance * left * np.exp(-s * x)
            total += term
            moment += x * term
            left *= 1.0 - chance
            x *= decay
        product[:, i], own[:, i] = total + left, moment  # of the remaining ages exp(-s X) is 1, and X is 0
    return _integral(z, own, product, complete=True)


def _inverse_of_larger(p: FloatArray, weights: FloatArray, c: float) -> FloatArray:
    """[m], E[1/max(W, c)] given that client i is there, with W the sum of the weights of those who are there."""
    total = weights.sum()
    if c >= total:
        return np.full(len(p), 1 / c)
    if len(p) <= ENUMERATED:
        there, chance = _sets(p)
        return np.asarray((chance / np.maximum(there @ weights, c)) @ there / p)
    found = np.full(len(p), (1 + np.log(total / c)) / total)  # the constant term
    for first in range(1, _TERMS, _TOGETHER):
        frequency = np.pi * np.arange(first, first + _TOGETHER) / total
        # 2/T ∫ f(w) cos(frequency w) dw over [0, T]; Ci is the cosine integral
        cosine = sici(frequency * total)[1] - sici(frequency * c)[1]
        coefficient = 2 / total * (np.sin(frequency * c) / (frequency * c) + cosine)
        turn = np.exp(1j * frequency[:, None] * weights)
        factor = 1 - p + p * turn
        one = np.ones((len(frequency), 1))
        before = np.cumprod(np.hstack([one, factor[:, :-1]]), axis=1)
        after = np.cumprod(np.hstack([one, factor[:, :0:-1]]), axis=1)[:, ::-1]
        found += coefficient @ (turn * before * after).real
    return found


def _sets(p: FloatArray) -> tuple[npt.NDArray[np.bool_], FloatArray]:
    """[2^m, m], all sets of clients, the empty one first, and [2^m], the probability of each."""
    there = (np.arange(2 ** len(p))[:, None] >> np.arange(len(p))) % 2 == 1
    return there, np.prod(np.where(there, p, 1 - p), axis=1)


def _integral(z: FloatArray, own: FloatArray, product: FloatArray, complete: bool) -> FloatArray:
    """∫ own_i Π_{j≠i} product_j ds with s = e^z, for every client; logarithms, because products may underflow.

    `complete`: somebody always has a weight, so that the shares add up to 1.
    """
    logs = np.log(np.maximum(product, 1e-300))
    others = np.exp(logs.sum(axis=1, keepdims=True) - logs)
    shares: FloatArray = _STEP * (np.exp(z)[:, None] * own * others).sum(axis=0)
    require(
        abs(shares.sum() - 1) < 1e-6 or not complete,
        "the shares cannot be computed for so few and so rare clients: the integral converges too slowly",
    )
    return shares


def _nodes(smallest: float, largest: float, tail: float) -> FloatArray:
    """Values of z outside of which the integrand is negligible: it grows like e^z, and falls like e^(-tail z)."""
    low = np.log(_NEGLIGIBLE / largest)
    high = np.log(1 / smallest) + min(-np.log(_NEGLIGIBLE) / max(tail, 0.02), 700.0)
    return np.arange(low, high, _STEP)


def _positive(prob: npt.ArrayLike) -> FloatArray:
    table = probability_matrix(np.atleast_2d(np.asarray(prob, np.float64)))
    require(len(table) == 1, "shares are for probabilities that do not change: give one row")
    require((table > 0).all(), "a client that is never available has no share: leave it out")
    return np.asarray(table[0])
