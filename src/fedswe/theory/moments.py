"""Exact second moments of FedSWE on noisy quadratics, for any number of exchangeable clients.

F_i(x) = c(x - u_i)²/2 in one dimension, gradient noise of variance σ², optima u_i independent with mean 0 and variance
``spread``², and all clients available with the same probability p in every round. With the echo e_i = t - τ_i(t), a
client's state Y_i = (x_i, e_i x_i, e_i u_i, u_i) and the server model x, a round is linear: an absent client has
Y_i ← (x_i, e_i x_i + x_i, e_i u_i + u_i, u_i), a present one Y_i ← (x⁺, x⁺, u_i, u_i), and
x⁺ = (Σ_{i∈A}[x_i + a e_i(u_i - x_i) + e_i ν_i] + k x)/(|A| + k), a as in ``fedswe.theory.limits``. A is independent of
the past, so E[x²], E[x Y_i], E[Y_i Y_iᵀ] and E[Y_i Y_jᵀ], i ≠ j, obey a closed linear recursion, of the same size for
every m. Expectations are over availability, noise and the optima; no sampling.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from fedswe.errors import require
from fedswe.theory.assumption import FloatArray, check_k
from fedswe.theory.limits import visit_step
from fedswe.theory.mixing import binomial
from fedswe.theory.rates import corollary_rates

_SIZE = 4  # of a client's state
_WIDTH = 1 + _SIZE + 2 * _SIZE**2 + 3  # E x², E xY, E YYᵀ of one and of two clients, E e, E e² and 1
_ABSENT = np.array([[1.0, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]])
_PRESENT = np.array([[0.0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1]])  # without x⁺ ...
_RECEIVED = np.array([1.0, 1.0, 0.0, 0.0])  # ... which enters here


@dataclass(frozen=True)
class NoisyQuadratics:
    """The clients, and how FedSWE trains them."""

    clients: int
    p: float
    k: float
    local_lr: float
    lr: float
    steps: int
    curvature: float = 1.0
    sigma: float = 0.0  # standard deviation of the gradient noise
    spread: float = 0.0  # standard deviation of the optima
    start: float = 0.0  # x^0; the optima have mean 0

    def __post_init__(self) -> None:
        require(self.clients >= 2, f"{self.clients} clients: give at least two")
        require(0.0 < self.p <= 1.0, f"p = {self.p} must lie in (0, 1]")
        check_k(self.k)
        visit_step(self.local_lr, self.steps, self.lr, self.curvature)  # refuses rates that are not positive

    @property
    def step(self) -> float:
        """a: the fraction of the way to its optimum that a visit covers."""
        return visit_step(self.local_lr, self.steps, self.lr, self.curvature)

    @property
    def visit_noise(self) -> float:
        """The variance of ν_i: the noise of s local steps, times η_g²."""
        kept = (1.0 - self.local_lr * self.curvature) ** (2 * np.arange(self.steps))
        return float((self.lr * self.local_lr * self.sigma) ** 2 * kept.sum())


@dataclass(frozen=True)
class MeanErrors:
    """Expected squares averaged over rounds; x̄ is the mean over all M regular and virtual clients."""

    mean_gradient: float  # E‖∇F(x̄)‖²
    consensus: float  # (1/M) Σ_{i≤M} E‖x_i - x̄‖²


def mean_errors(problem: NoisyQuadratics, rounds: int) -> MeanErrors:
    """The errors averaged over t = 0..T-1, as in the theorem."""
    moments, m, k = mean_moments(problem, rounds), problem.clients, problem.k
    total, model, optimum = m + k, *np.eye(_SIZE)[[0, 3]]
    gradient = problem.curvature**2 * moments.square(k / total, model / total - optimum / m)
    regular = m / total * moments.square(-k / total, -model / total, model)
    virtual = k / total * moments.square(1.0 - k / total, -model / total)
    return MeanErrors(max(gradient, 0.0), max(regular + virtual, 0.0))  # squares: below 0 is rounding


@dataclass(frozen=True, eq=False)
class Moments:
    """The second moments of one round, or their mean over rounds."""

    clients: int
    state: FloatArray

    def square(self, of_server: float, of_all: FloatArray, of_one: FloatArray | None = None) -> float:
        """E of (α x + Σ_l β·Y_l + γ·Y_i)²."""
        m = self.clients
        server, cross, own, other, *_ = (part[0] for part in _unpack(self.state[None]))
        gamma = np.zeros(_SIZE) if of_one is None else of_one
        value = of_server**2 * server + 2 * of_server * (gamma + m * of_all) @ cross + gamma @ own @ gamma
        value += 2 * gamma @ (own + (m - 1) * other) @ of_all
        return float(value + m * of_all @ (own + (m - 1) * other) @ of_all)


def mean_moments(problem: NoisyQuadratics, rounds: int) -> Moments:
    """Of t = 0..T-1; O(log T) products of small matrices."""
    require(rounds >= 1, f"{rounds} rounds: use at least 1")
    power, total = transition(problem), np.eye(_WIDTH)  # W and Σ_{t<1} W^t
    summed, shift = np.zeros((_WIDTH, _WIDTH)), np.eye(_WIDTH)
    left = rounds
    with np.errstate(over="ignore", invalid="ignore"):  # rates that diverge: the errors are not finite
        while left:
            if left % 2:
                summed, shift = summed + shift @ total, shift @ power
            total, power, left = total + power @ total, power @ power, left // 2
        return Moments(problem.clients, summed @ start(problem) / rounds)


def start(problem: NoisyQuadratics) -> FloatArray:
    """The moments before round 0, where all models are the start."""
    x2, u2 = problem.start**2, problem.spread**2
    own = np.zeros((_SIZE, _SIZE))
    own[:2, :2], own[2:, 2:] = x2, u2
    other = np.zeros((_SIZE, _SIZE))
    other[:2, :2] = x2
    return np.concatenate([[x2], [x2, x2, 0, 0], own.ravel(), other.ravel(), [1.0, 1.0, 1.0]])


def transition(problem: NoisyQuadratics) -> FloatArray:
    """The matrix of one round on the moments."""
    return _advance(problem, _SetWeights.of(problem), np.eye(_WIDTH)).T


@dataclass(frozen=True)
class _SetWeights:
    """Sums over n = |A| of P(a status of one or two given clients, n) times powers of n and of 1/(n+k).

    Rows of ``square``: of E[x⁺²]; columns: no client given, one present, two present. ``one`` and ``two`` weigh
    E[x⁺Y_i]: columns D c, O c and R for i present and absent, with nobody else given, and with another present.
    """

    square: FloatArray  # [5, 3]: n, n(n-1), 2nk, k² and, for A = ∅ and k = 0, 1; each over (n+k)²
    present: FloatArray  # [3]: i ∈ A
    absent: FloatArray  # [3]: i ∉ A
    both_present: FloatArray  # [3]: i, j ∈ A
    other_present: FloatArray  # [3]: i ∉ A, j ∈ A

    @classmethod
    def of(cls, problem: NoisyQuadratics) -> _SetWeights:
        m, k = problem.clients, problem.k
        n = np.arange(m + 1.0)
        chance = binomial(m, problem.p)
        empty = n + k == 0.0
        w = np.where(empty, 0.0, 1.0 / np.where(empty, 1.0, n + k))
        pairs = m * (m - 1)
        one, two = chance * n / m, chance * n * (n - 1) / pairs
        out, split = chance * (m - n) / m, chance * n * (m - n) / pairs
        square = np.stack([n * w**2, n * (n - 1) * w**2, 2 * n * k * w**2, (k * w) ** 2, np.where(empty, 1.0, 0.0)])
        here = np.stack([w, (n - 1) * w, k * w])
        away = np.stack([0.0 * n, n * w, np.where(empty, 1.0, k * w)])
        return cls(square @ np.stack([chance, one, two], axis=1), here @ one, away @ out, here @ two, away @ split)


def _advance(problem: NoisyQuadratics, weights: _SetWeights, states: FloatArray) -> FloatArray:
    """One round of the moments of each row [n, width]; linear."""
    p, a = problem.p, problem.step
    server, cross, own, other, first, second, one = _unpack(states)
    report = np.array([1.0, -a, a, 0.0])
    of_own, of_other = own @ report, other @ report
    noise = problem.visit_noise * second
    parts = np.stack([of_own @ report + noise, of_other @ report, cross @ report, server, server], axis=-1)
    square, square_one, square_two = (parts @ weights.square).T
    pieces = np.stack([of_own, of_other, cross], axis=-2)
    here, away, both, split = (
        row @ pieces for row in (weights.present, weights.absent, weights.both_present, weights.other_present)
    )
    new_cross = square_one[:, None] * _RECEIVED + here @ _PRESENT.T + away @ _ABSENT.T
    new_own = _visited(square_one, here, p * own) + (1 - p) * _ABSENT @ own @ _ABSENT.T
    mixed = _RECEIVED[:, None] * (split @ _ABSENT.T)[:, None] + p * (1 - p) * _PRESENT @ other @ _ABSENT.T
    new_other = _visited(square_two, both, p**2 * other) + mixed + mixed.swapaxes(1, 2)
    new_other = new_other + (1 - p) ** 2 * _ABSENT @ other @ _ABSENT.T
    echo = np.stack([one + (1 - p) * first, one + (1 - p) * (2 * first + second), one], axis=-1)
    flat = (len(states), _SIZE**2)
    return np.concatenate([square[:, None], new_cross, new_own.reshape(flat), new_other.reshape(flat), echo], axis=1)


def _visited(square: FloatArray, received: FloatArray, kept: FloatArray) -> FloatArray:
    """E[(g x⁺ + H Y_i)(g x⁺ + H Y_j)ᵀ] from E[x⁺²], E[x⁺ Y] and E[Y_i Y_jᵀ], each on the event that both visit."""
    half = _RECEIVED[:, None] * (received @ _PRESENT.T)[:, None]
    both = square[:, None, None] * np.outer(_RECEIVED, _RECEIVED)
    return np.asarray(both + half + half.swapaxes(1, 2) + _PRESENT @ kept @ _PRESENT.T)


def _unpack(states: FloatArray) -> tuple[FloatArray, ...]:
    """E x², E xY, E YYᵀ of one and of two clients, E e, E e² and 1, of each row."""
    cut = 1 + _SIZE + _SIZE**2
    square = (len(states), _SIZE, _SIZE)
    own, other = states[:, 1 + _SIZE : cut].reshape(square), states[:, cut : cut + _SIZE**2].reshape(square)
    return (states[:, 0], states[:, 1 : 1 + _SIZE], own, other, *states[:, -3:].T)


# linear speed-up: how many rounds more clients and more local steps save ------------------------------------------
# The remark after Corollary (x bar rate) is for everybody available and k = Θ(m): the bound is then of order 1/√(smT),
# so s·m times fewer rounds reach the same accuracy, for T so large that the corollary's rates are admitted
# (``fedswe.theory.rates.corollary_rounds``). Here T is measured, for any p, at the rates for this T whether they are
# admitted or not; the curvature and E‖x^0 - x*‖² are 1.
MOST_ROUNDS = 2**40


def mean_gradient(rounds: int, *, clients: int, steps: int, p: float, k: float, sigma: float, spread: float) -> float:
    """(1/T) Σ_{t<T} E‖∇F(x̄^t)‖² at the rates of Corollary (x bar rate) for T = ``rounds``; δ = p, P = 1, L = 1.

    ``spread`` is the standard deviation of the clients' optima, at most √m.
    """
    require(spread**2 <= clients, f"spread {spread} must be at most the square root of {clients} clients")
    rates = corollary_rates(rounds=rounds, steps=steps, smoothness=1.0, delta=p, clients=clients)
    begin = math.sqrt(1.0 - spread**2 / clients)  # the mean of the optima has the variance spread²/m
    problem = NoisyQuadratics(clients, p, k, rates.local_lr, rates.lr, steps, sigma=sigma, spread=spread, start=begin)
    return mean_errors(problem, rounds).mean_gradient


def rounds_needed(target: float, *, clients: int, steps: int, p: float, k: float, sigma: float, spread: float) -> float:
    """The T from which ``mean_gradient`` is at most ``target``, by bisection; infinite beyond 2^40 rounds."""
    require(target > 0.0, f"target {target} must be positive")

    def reached(rounds: int) -> bool:
        value = mean_gradient(rounds, clients=clients, steps=steps, p=p, k=k, sigma=sigma, spread=spread)
        return value <= target  # not so where the rates diverge

    enough = 1
    while not reached(enough):
        enough *= 2
        if enough > MOST_ROUNDS:
            return math.inf
    candidates = range(enough // 2 + 1, enough)
    return candidates.start + bisect_left(candidates, True, key=reached)
