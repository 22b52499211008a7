"""The constants of Assumptions 2-4, L, σ² and (β, ζ), estimated on a task through its gradients.

A task is two plain functions over float64 vectors: ``full_gradient(client, x)`` = ∇F_i(x) and
``stochastic_gradient(client, x, draw)`` = ∇ℓ_i(x; ξ) with the draw's own sample ξ. The assumptions ask for bounds at
every x; an estimate sees the points it is given, e.g. the models of a run. Each is exact there, and a lower
bound on the constant of the assumption.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedswe.errors import require
from fedswe.theory.assumption import FloatArray

FullGradient = Callable[[int, FloatArray], FloatArray]
StochasticGradient = Callable[[int, FloatArray, int], FloatArray]


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
    full_gradient: FullGradient,
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
    require(clients >= 1, f"{clients} clients: give at least one")
    require(iterations >= 1, f"{iterations} iterations: use at least 1")
    require(spacing > 0.0, f"spacing {spacing} must be positive")
    rng = np.random.default_rng(seed)
    start = rng.standard_normal((x.shape[1],))
    curvature = np.array(
        [[_curvature(full_gradient, i, row, start, iterations, spacing) for row in x] for i in range(clients)]
    )
    per_client: FloatArray = curvature.max(axis=1)
    return SmoothnessEstimate(float(per_client.max()), per_client, int(per_client.argmax()))


def _curvature(
    full_gradient: FullGradient,
    client: int,
    x: FloatArray,
    start: FloatArray,
    iterations: int,
    spacing: float,
) -> float:
    direction, size = start / np.linalg.norm(start), 0.0
    h = spacing * max(1.0, float(np.linalg.norm(x)))
    for _ in range(iterations):
        forward = _gradient(full_gradient(client, x + h * direction), x, client)
        backward = _gradient(full_gradient(client, x - h * direction), x, client)
        image = (forward - backward) / (2.0 * h)
        size = float(np.linalg.norm(image))
        if size == 0.0:
            break
        direction = image / size
    return size


def estimate_gradient_variance(
    full_gradient: FullGradient,
    stochastic_gradient: StochasticGradient,
    clients: int,
    points: npt.ArrayLike,
    *,
    draws: int = 100,
) -> VarianceEstimate:
    """σ² as the largest mean of ‖∇ℓ_i(x;ξ) - ∇F_i(x)‖² over ``draws`` samples, over clients and points [n, d].

    A maximum of means leans upwards by about its standard error.
    """
    x = _points(points)
    require(clients >= 1, f"{clients} clients: give at least one")
    require(draws >= 2, f"{draws} draws: use at least 2")
    variance, error, bias = (np.empty((clients, len(x))) for _ in range(3))
    for i in range(clients):
        for n, row in enumerate(x):
            exact = _gradient(full_gradient(i, row), row, i)
            noise = np.stack([_gradient(stochastic_gradient(i, row, q), row, i) for q in range(draws)]) - exact
            squares = (noise**2).sum(axis=1)
            variance[i, n], error[i, n] = squares.mean(), squares.std(ddof=1) / np.sqrt(draws)
            bias[i, n] = np.linalg.norm(noise.mean(axis=0))
    worst = np.unravel_index(variance.argmax(), variance.shape)
    return VarianceEstimate(
        value=float(variance[worst]),
        standard_error=float(error[worst]),
        mean=float(variance.mean()),
        per_client=variance.max(axis=1),
        largest_bias=float(bias.max()),
    )


def estimate_dissimilarity(full_gradient: FullGradient, clients: int, points: npt.ArrayLike) -> DissimilarityEstimate:
    """(β, ζ) of Assumption 4 by least squares of (1/m)Σ‖∇F_i - ∇F‖² on ‖∇F‖² over the points [n, d].

    The fitted slope, at least 0, is β². ζ² is then the smallest intercept with which the inequality holds at all
    points. Points whose ‖∇F‖ hardly varies say nothing about β, which then stays 0.
    """
    x = _points(points)
    require(clients >= 1, f"{clients} clients: give at least one")
    divergence, norm = np.empty(len(x)), np.empty(len(x))
    for n, row in enumerate(x):
        gradients = np.stack([_gradient(full_gradient(i, row), row, i) for i in range(clients)])
        mean = gradients.mean(axis=0)
        divergence[n] = ((gradients - mean) ** 2).sum(axis=1).mean()
        norm[n] = (mean**2).sum()
    centred = norm - norm.mean()
    spread = float((centred**2).sum())
    flat = spread <= 1e-24 * float((norm**2).sum())
    slope = 0.0 if flat else max(0.0, float(centred @ divergence) / spread)
    zeta_squared = max(0.0, float((divergence - slope * norm).max()))
    return DissimilarityEstimate(float(np.sqrt(slope)), float(np.sqrt(zeta_squared)), divergence, norm)


def _points(points: npt.ArrayLike) -> FloatArray:
    x = np.asarray(points, dtype=np.float64)
    require(x.ndim == 2 and x.size > 0, f"points must be an [n, d] table of models, got shape {x.shape}")
    require(bool(np.isfinite(x).all()), "points must hold finite numbers only")
    return x


def _gradient(values: FloatArray, x: FloatArray, client: int) -> FloatArray:
    gradient = np.asarray(values, dtype=np.float64)
    require(
        gradient.shape == x.shape,
        f"the gradient of client {client} has shape {gradient.shape}, its point {x.shape}: return one entry per entry",
    )
    require(bool(np.isfinite(gradient).all()), f"the gradient of client {client} is not finite at a given point")
    return gradient
