"""The constants of Assumptions 2-4, L, σ² and (β, ζ), estimated on a task through its gradients.

A task is two plain functions over float64 rows, many clients at a time: ``full_gradients(clients, x)`` with row j
∇F_i(x_j), i = clients[j], and ``stochastic_gradients(clients, x, draw)`` with row j ∇ℓ_i(x_j; ξ), ξ the draw's own
sample. The assumptions ask for bounds at every x; an estimate sees the points it is given, e.g. the models of a
run. Each is exact there, and a lower bound on the constant of the assumption.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fedswe.errors import FedsweError, require
from fedswe.theory.assumption import FloatArray, IntArray

Gradients = Callable[..., FloatArray]

BLOCK = 2**22  # numbers in one stack of gradients, 32 MB
ROUNDING = 1e-13  # of a gradient, relative: a smaller difference is not noise
SPACING = 1e-4  # of the points between which a curvature is measured


class VarianceEstimate(NamedTuple):
    """σ² at the given points: the largest E‖∇ℓ_i(x;ξ) - ∇F_i(x)‖² of any client."""

    value: float
    standard_error: float  # of ``value`` as the mean of the draws at its client and point
    mean: float  # over clients and points


class DissimilarityEstimate(NamedTuple):
    """(β, ζ) with (1/m)Σ‖∇F_i - ∇F‖² ≤ β²‖∇F‖² + ζ² at every given point, tight at one of them at least."""

    beta: float
    zeta: float
    divergence: FloatArray  # [n], (1/m)Σ‖∇F_i(x) - ∇F(x)‖²
    gradient_norm_squared: FloatArray  # [n], ‖∇F(x)‖²


def estimate_smoothness(
    full_gradients: Gradients, clients: int, points: npt.ArrayLike, *, iterations: int = 50
) -> FloatArray:
    """L of each client by power iteration on its Hessian, the largest at any point [n, d].

    The Hessian times v is the central difference (∇F_i(x + hv) - ∇F_i(x - hv))/(2h), h = ``SPACING``·max(1, ‖x‖),
    whose norm never exceeds L. A local estimate from below: it tends to L for quadratics, and to the curvature at
    the given points elsewhere, where L can be larger.
    """
    per_client = np.zeros(clients)
    for block, _, x in _rows(clients, points):
        start = np.random.default_rng(0).standard_normal((x.shape[1],))
        direction = np.tile(start / np.linalg.norm(start), (len(block), 1))
        size, h = np.zeros(len(block)), SPACING * max(1.0, float(np.linalg.norm(x[0])))
        for _ in range(iterations):
            ahead, behind = (_checked(full_gradients(block, x + s * h * direction), x, block) for s in (1.0, -1.0))
            image = (ahead - behind) / (2.0 * h)
            size = np.linalg.norm(image, axis=1)
            if not size.any():
                break
            direction = np.where(size[:, None] > 0.0, image / np.where(size > 0.0, size, 1.0)[:, None], direction)
        per_client[block] = np.maximum(per_client[block], size)
    return per_client


def estimate_gradient_variance(
    full_gradients: Gradients, stochastic_gradients: Gradients, clients: int, points: npt.ArrayLike, *, draws: int = 100
) -> VarianceEstimate:
    """σ² as the largest mean of ‖∇ℓ_i(x;ξ) - ∇F_i(x)‖² over ``draws`` samples, over clients and points [n, d].

    A maximum of means is biased upwards by about its standard error.
    """
    require(draws >= 2, f"{draws} draws: use at least 2")
    variance, error = (np.empty((clients, len(np.asarray(points)))) for _ in range(2))
    for block, n, x in _rows(clients, points):
        exact = _checked(full_gradients(block, x), x, block)
        squares = np.empty((draws, len(block)))
        for draw in range(draws):
            squares[draw] = ((_checked(stochastic_gradients(block, x, draw), x, block) - exact) ** 2).sum(axis=1)
        squares[squares <= ROUNDING**2 * (exact**2).sum(axis=1)] = 0.0
        variance[block, n], error[block, n] = squares.mean(axis=0), squares.std(axis=0, ddof=1) / np.sqrt(draws)
    worst = np.unravel_index(variance.argmax(), variance.shape)
    return VarianceEstimate(float(variance[worst]), float(error[worst]), float(variance.mean()))


def estimate_dissimilarity(full_gradients: Gradients, clients: int, points: npt.ArrayLike) -> DissimilarityEstimate:
    """(β, ζ) of Assumption 4 by least squares of (1/m)Σ‖∇F_i - ∇F‖² on ‖∇F‖² over the points [n, d].

    The fitted slope, at least 0, is β². ζ² is then the smallest intercept with which the inequality holds at all
    points. Points with nearly equal ‖∇F‖ do not determine β, which is then 0.
    """
    count, dimension = np.shape(points) if np.ndim(points) == 2 else (0, 0)
    mean, spread, seen = np.zeros((count, dimension)), np.zeros(count), np.zeros(count)
    for block, n, x in _rows(clients, points):
        gradients = _checked(full_gradients(block, x), x, block)
        own, size = gradients.mean(axis=0), len(block)
        # Means and spreads of parts combine (Chan, Golub, LeVeque 1983) without cancellation.
        spread[n] += float(((gradients - own) ** 2).sum())
        spread[n] += float(((own - mean[n]) ** 2).sum()) * seen[n] * size / (seen[n] + size)
        mean[n] += (own - mean[n]) * size / (seen[n] + size)
        seen[n] += size
    divergence, norm = spread / clients, (mean**2).sum(axis=1)
    centred = norm - norm.mean()
    variation = float((centred**2).sum())
    flat = variation <= 1e-24 * float((norm**2).sum())
    slope = 0.0 if flat else max(0.0, float(centred @ divergence) / variation)
    zeta_squared = max(0.0, float((divergence - slope * norm).max()))
    return DissimilarityEstimate(float(np.sqrt(slope)), float(np.sqrt(zeta_squared)), divergence, norm)


def _rows(clients: int, points: npt.ArrayLike) -> Iterator[tuple[IntArray, int, FloatArray]]:
    """Blocks of clients, and each point, by its number, repeated for the block: at most BLOCK numbers at a time."""
    x = np.asarray(points, dtype=np.float64)
    require(x.ndim == 2 and x.size > 0, f"points must be an [n, d] table of models, got shape {x.shape}")
    require(bool(np.isfinite(x).all()), "points must hold finite numbers only")
    require(clients >= 1, f"{clients} clients: give at least one")
    size = max(1, BLOCK // x.shape[1])
    for first in range(0, clients, size):
        block = np.arange(first, min(first + size, clients))
        for n, row in enumerate(x):
            yield block, n, np.tile(row, (len(block), 1))


def _checked(values: FloatArray, rows: FloatArray, block: IntArray) -> FloatArray:
    gradients = np.asarray(values, dtype=np.float64)
    require(
        gradients.shape == rows.shape,
        f"the gradients have shape {gradients.shape}, their points {rows.shape}: return one entry per entry",
    )
    wrong = np.flatnonzero(~np.isfinite(gradients).all(axis=1))
    if wrong.size:
        raise FedsweError(f"the gradient of client {block[wrong[0]]} is not finite at a given point")
    return gradients
