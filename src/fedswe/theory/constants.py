"""The constants of Assumptions 2-4, L, σ² and (β, ζ), estimated on a task through its gradients.

A task is two plain functions over float64 rows, many clients at a time: ``full_gradients(clients, x)`` with row j
∇F_i(x_j), i = clients[j], and ``stochastic_gradients(clients, x, draw)`` with row j ∇ℓ_i(x_j; ξ), ξ the draw's own
sample. The assumptions ask for bounds at every x; an estimate sees the points it is given, e.g. the models of a
run. Each is exact there, and a lower bound on the constant of the assumption.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedswe.errors import FedsweError, require
from fedswe.theory.assumption import FloatArray, IntArray

FullGradients = Callable[[IntArray, FloatArray], FloatArray]
StochasticGradients = Callable[[IntArray, FloatArray, int], FloatArray]

BLOCK = 2**22  # numbers in one stack of gradients, 32 MB
ROUNDING = 1e-13  # of a gradient, relative: a smaller difference is not noise


@dataclass(frozen=True, eq=False)
class SmoothnessEstimate:
    """L at the given points: the largest curvature of any client."""

    value: float
    per_client: FloatArray  # [m], the maximum over the points
    client: int  # whose curvature is the largest


@dataclass(frozen=True, eq=False)
class VarianceEstimate:
    """σ² at the given points: the largest E‖∇ℓ_i(x;ξ) - ∇F_i(x)‖² of any client."""

    value: float
    standard_error: float  # of ``value`` as the mean of the draws at its client and point
    mean: float  # over clients and points
    per_client: FloatArray  # [m], the maximum over the points
    largest_bias: float  # max ‖mean of the draws - ∇F_i(x)‖; not near 0: the draws are not unbiased


@dataclass(frozen=True, eq=False)
class DissimilarityEstimate:
    """(β, ζ) with (1/m)Σ‖∇F_i - ∇F‖² ≤ β²‖∇F‖² + ζ² at every given point, tight at one of them at least."""

    beta: float
    zeta: float
    divergence: FloatArray  # [n], (1/m)Σ‖∇F_i(x) - ∇F(x)‖²
    gradient_norm_squared: FloatArray  # [n], ‖∇F(x)‖²


def estimate_smoothness(
    full_gradients: FullGradients,
    clients: int,
    points: npt.ArrayLike,
    *,
    iterations: int = 50,
    spacing: float = 1e-4,
    seed: int = 0,
) -> SmoothnessEstimate:
    """L by power iteration on each client's Hessian, at each point [n, d]; 2·n·m·iterations gradients.

    The Hessian times v is the central difference (∇F_i(x + hv) - ∇F_i(x - hv))/(2h), h = ``spacing``·max(1, ‖x‖),
    whose norm never exceeds L. A local estimate from below: it tends to L for quadratics, and to the curvature at
    the given points elsewhere, where L can be larger.
    """
    x = _points(points)
    require(iterations >= 1, f"{iterations} iterations: use at least 1")
    require(spacing > 0.0, f"spacing {spacing} must be positive")
    start = np.random.default_rng(seed).standard_normal((x.shape[1],))
    per_client = np.zeros(clients)
    for block in _blocks(clients, x.shape[1]):
        for row in x:
            curvature = _curvature(full_gradients, block, row, start, iterations, spacing)
            per_client[block] = np.maximum(per_client[block], curvature)
    return SmoothnessEstimate(float(per_client.max()), per_client, int(per_client.argmax()))


def _curvature(
    full_gradients: FullGradients,
    block: IntArray,
    x: FloatArray,
    start: FloatArray,
    iterations: int,
    spacing: float,
) -> FloatArray:
    direction = np.tile(start / np.linalg.norm(start), (len(block), 1))
    size = np.zeros(len(block))
    h = spacing * max(1.0, float(np.linalg.norm(x)))
    for _ in range(iterations):
        forward = _checked(full_gradients(block, x + h * direction), direction, block)
        backward = _checked(full_gradients(block, x - h * direction), direction, block)
        image = (forward - backward) / (2.0 * h)
        size = np.linalg.norm(image, axis=1)
        if not size.any():
            break
        direction = np.where(size[:, None] > 0.0, image / np.where(size > 0.0, size, 1.0)[:, None], direction)
    return size


def estimate_gradient_variance(
    full_gradients: FullGradients,
    stochastic_gradients: StochasticGradients,
    clients: int,
    points: npt.ArrayLike,
    *,
    draws: int = 100,
) -> VarianceEstimate:
    """σ² as the largest mean of ‖∇ℓ_i(x;ξ) - ∇F_i(x)‖² over ``draws`` samples, over clients and points [n, d].

    A maximum of means is biased upwards by about its standard error.
    """
    x = _points(points)
    require(draws >= 2, f"{draws} draws: use at least 2")
    variance, error, bias = (np.empty((clients, len(x))) for _ in range(3))
    for block in _blocks(clients, x.shape[1]):
        for n, row in enumerate(x):
            rows = np.tile(row, (len(block), 1))
            exact = _checked(full_gradients(block, rows), rows, block)
            squares, total = np.empty((draws, len(block))), np.zeros_like(rows)
            for draw in range(draws):
                noise = _checked(stochastic_gradients(block, rows, draw), rows, block) - exact
                squares[draw] = (noise**2).sum(axis=1)
                total += noise
            squares[squares <= ROUNDING**2 * (exact**2).sum(axis=1)] = 0.0
            variance[block, n], error[block, n] = squares.mean(axis=0), squares.std(axis=0, ddof=1) / np.sqrt(draws)
            bias[block, n] = np.linalg.norm(total / draws, axis=1)
    worst = np.unravel_index(variance.argmax(), variance.shape)
    return VarianceEstimate(
        value=float(variance[worst]),
        standard_error=float(error[worst]),
        mean=float(variance.mean()),
        per_client=variance.max(axis=1),
        largest_bias=float(bias.max()),
    )


def estimate_dissimilarity(full_gradients: FullGradients, clients: int, points: npt.ArrayLike) -> DissimilarityEstimate:
    """(β, ζ) of Assumption 4 by least squares of (1/m)Σ‖∇F_i - ∇F‖² on ‖∇F‖² over the points [n, d].

    The fitted slope, at least 0, is β². ζ² is then the smallest intercept with which the inequality holds at all
    points. Points with nearly equal ‖∇F‖ do not determine β, which is then 0.
    """
    x = _points(points)
    divergence, norm = np.empty(len(x)), np.empty(len(x))
    for n, row in enumerate(x):
        mean, spread, seen = np.zeros_like(row), 0.0, 0
        for block in _blocks(clients, len(row)):
            rows = np.tile(row, (len(block), 1))
            gradients = _checked(full_gradients(block, rows), rows, block)
            own = gradients.mean(axis=0)
            # Means and spreads of parts combine (Chan, Golub, LeVeque 1983) without cancellation.
            spread += float(((gradients - own) ** 2).sum())
            spread += float(((own - mean) ** 2).sum()) * seen * len(block) / (seen + len(block))
            mean = mean + (own - mean) * len(block) / (seen + len(block))
            seen += len(block)
        divergence[n], norm[n] = spread / clients, (mean**2).sum()
    centred = norm - norm.mean()
    variation = float((centred**2).sum())
    flat = variation <= 1e-24 * float((norm**2).sum())
    slope = 0.0 if flat else max(0.0, float(centred @ divergence) / variation)
    zeta_squared = max(0.0, float((divergence - slope * norm).max()))
    return DissimilarityEstimate(float(np.sqrt(slope)), float(np.sqrt(zeta_squared)), divergence, norm)


def _blocks(clients: int, dimension: int) -> Iterator[IntArray]:
    """All clients in blocks; the gradients of one block have at most BLOCK numbers."""
    require(clients >= 1, f"{clients} clients: give at least one")
    size = max(1, BLOCK // dimension)
    return (np.arange(first, min(first + size, clients)) for first in range(0, clients, size))


def _points(points: npt.ArrayLike) -> FloatArray:
    x = np.asarray(points, dtype=np.float64)
    require(x.ndim == 2 and x.size > 0, f"points must be an [n, d] table of models, got shape {x.shape}")
    require(bool(np.isfinite(x).all()), "points must hold finite numbers only")
    return x


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
