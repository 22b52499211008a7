"""The constants of Assumptions 2-4, estimated from the gradients of a task."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from fedswe.engine import Engine
from fedswe.errors import require
from fedswe.tasks.problem import Problem
from fedswe.tasks.quadratic import QuadraticProblem
from fedswe.theory.assumption import FloatArray, IntArray
from fedswe.theory.constants import (
    DissimilarityEstimate,
    SmoothnessEstimate,
    VarianceEstimate,
    estimate_dissimilarity,
    estimate_gradient_variance,
    estimate_smoothness,
)

_DIVERGED = 1e50  # larger models leave no digits for differences of gradients


@dataclass(frozen=True, eq=False)
class Constants:
    """L, sigma^2 and (beta, zeta) at some models, and F(x^0) - F*."""

    smoothness: SmoothnessEstimate
    variance: VarianceEstimate
    dissimilarity: DissimilarityEstimate
    initial_gap: float
    gap_is_exact: bool  # otherwise F* is taken as 0, a lower bound of these losses
    points: int


def measure(
    problem: Problem, points: FloatArray, batch_size: int, draws: int = 20, iterations: int = 20
) -> Constants:  # fmt: skip
    """Estimate at the given models [n, d]. Build the problem in float64: curvature is a difference of gradients."""

    def tensor(x: FloatArray) -> torch.Tensor:
        return torch.as_tensor(x).to(problem.start)

    def full_gradients(clients: IntArray, x: FloatArray) -> FloatArray:
        return _array(problem.full_gradients(tensor(x), torch.as_tensor(clients)))

    def stochastic_gradients(clients: IntArray, x: FloatArray, draw: int) -> FloatArray:
        (batch,) = problem.draw(torch.as_tensor(clients), draw, 1, batch_size)  # the first step of round `draw`
        return _array(problem.gradients(tensor(x), batch))

    gap, exact = _initial_gap(problem)
    return Constants(
        estimate_smoothness(full_gradients, problem.m, points, iterations=iterations),
        estimate_gradient_variance(full_gradients, stochastic_gradients, problem.m, points, draws=draws),
        estimate_dissimilarity(full_gradients, problem.m, points),
        gap,
        exact,
        len(points),
    )


def models_of_a_run(engine: Engine, rounds: int, number: int) -> FloatArray:
    """The server model at `number` evenly spaced rounds of the first `rounds`, x^0 among them."""
    require(rounds >= 0, f"{rounds} rounds: give 0 (the start only) or more")
    require(number >= 1, f"{number} points: give at least one")
    wanted = np.unique(np.linspace(0, rounds, number).round().astype(int))
    models = []
    for t in wanted:
        while engine.t < t:
            engine.step()
        models.append(_array(engine.server_model()))
        require(
            bool((np.abs(models[-1]) < _DIVERGED).all()),
            f"the run has diverged by round {t}: lower local.lr, or estimate over fewer rounds (--along)",
        )
    return np.stack(models)


def _initial_gap(problem: Problem) -> tuple[float, bool]:
    start = problem.evaluate(problem.start)["train_loss"]
    if isinstance(problem, QuadraticProblem):
        return start - problem.evaluate(problem.optimum)["train_loss"], True
    return start, False


def _array(x: torch.Tensor) -> FloatArray:
    return np.asarray(x.detach().to("cpu", torch.float64).numpy())
