"""Quadratic objectives: small enough to check by hand, and every limit is known."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fedswe.availability.schedule import Floats
from fedswe.core import keys
from fedswe.core.local import Precision
from fedswe.core.value import NonNegative
from fedswe.errors import FedsweError, require
from fedswe.tasks.problem import Problem, Setting, Task, Weights

if TYPE_CHECKING:
    import torch

    from fedswe.core.records import Vector


@dataclass(frozen=True)
class Quadratic(Task):
    """F_i(x) = (a_i / 2) ||x - u_i||^2, gradients with optional Gaussian noise. The default is Example 1."""

    centers: list[list[float]] | list[float] | None = None  # u_i, one row per client; default (0), (100)
    centers_file: str = ""  # the same as a CSV
    curvature: float | list[float] = 1.0  # a_i, one number or one per client
    start: float | list[float] = 0.0  # x^0, one number or one per dimension
    noise: NonNegative = 0.0  # standard deviation of the gradient noise, per coordinate
    weights: Weights = None  # of the clients, one number each; default: all count the same

    title: ClassVar[str] = "quadratic objectives 0.5 a_i ||x - u_i||^2"

    def __post_init__(self) -> None:
        require(self.centers is None or not self.centers_file, "give task.centers or task.centers_file, not both")

    def build(self, setting: Setting) -> Problem:
        import torch

        centers = self._centers()
        m, d = centers.shape
        start = _filled(self.start, d, "start", f"the {d} dimensions")
        curvature = _filled(self.curvature, m, "curvature", f"the {m} clients")
        require((curvature >= 0).all(), "task.curvature must be 0 or more")

        def to(a: Floats) -> torch.Tensor:
            return torch.as_tensor(a, dtype=setting.dtype, device=setting.device)

        return QuadraticProblem(setting.seed, to(centers), to(curvature[:, None]), to(start), self.noise, self.weights)

    def _centers(self) -> Floats:
        where = f"task.centers_file: {self.centers_file}" if self.centers_file else "task.centers"
        try:
            with warnings.catch_warnings(action="ignore"):  # of an empty file, which is refused below
                given = np.loadtxt(self.centers_file, delimiter=",", ndmin=2) if self.centers_file else self.centers
                centers = np.array([[0.0], [100.0]] if given is None else given, dtype=np.float64)
        except OSError as error:
            raise FedsweError(f"task.centers_file: {error}") from None
        except ValueError:
            raise FedsweError(f"{where} must be rows of numbers of equal length, one per client") from None
        centers = centers[:, None] if centers.ndim == 1 else centers
        require(centers.size, "task.centers is empty: give one row per client")
        require(np.isfinite(centers).all(), "task.centers holds NaN or infinity")
        return centers


def _filled(value: float | list[float], size: int, key: str, of: str) -> Floats:
    array = np.array(value, dtype=np.float64)
    require(np.isfinite(array).all(), f"task.{key} holds NaN or infinity")
    require(array.shape in ((), (size,)), f"task.{key} must be one number or one for each of {of}")
    return np.broadcast_to(array, (size,)).copy()


_DRAWN_TOGETHER = 1 << 16  # values: a draw is a chain of operations, which cost more than the values of one step


@dataclass(frozen=True)
class Pull:
    """One step's gradient is curvature * (x - center) + noise."""

    curvature: torch.Tensor  # [n, 1]
    center: torch.Tensor  # [n, d]
    noise: torch.Tensor  # [n, d]

    def __getitem__(self, i: int) -> Pull:
        return Pull(self.curvature[i], self.center[i], self.noise[i])


class QuadraticProblem(Problem):
    def __init__(
        self,
        seed: int,
        centers: torch.Tensor,
        curvature: torch.Tensor,
        start: Vector,
        noise: float,
        weights: Weights = None,
    ) -> None:
        self.m, self.start = len(centers), start
        self.centers, self.curvature = centers, curvature
        self._seed, self._noise = seed, noise
        self.weigh(weights)
        pull = curvature if self.weights is None else curvature * curvature.new_tensor(self.weights)[:, None]
        weight = pull.sum()
        self.pull, self.optimum = pull, (pull * centers).sum(0) / weight if weight > 0 else start

    def draw(self, clients: torch.Tensor, t: int, steps: int, batch_size: int) -> Sequence[Pull]:
        import torch

        curvature, center = self.curvature[clients], self.centers[clients]
        if not self._noise:
            return [Pull(curvature, center, torch.zeros_like(center))] * steps
        pulls: list[Pull] = []
        where = torch.arange(center.shape[1], device=center.device)
        together = max(1, _DRAWN_TOGETHER // max(center.numel(), 1))
        for first in range(0, steps, together):
            step = torch.arange(first, min(first + together, steps), device=center.device)[:, None, None]
            drawn = keys.normal(self._seed, "gradient noise", clients[:, None], t, step, where)
            pulls += [Pull(curvature, center, noise) for noise in self._noise * drawn.to(center.dtype)]
        return pulls

    def gradient(self, x: Vector, batch: Pull, precision: Precision = "fp32") -> Vector:
        return batch.curvature * (x - batch.center) + batch.noise

    gradients = gradient  # coordinate-wise: the same line serves one client and n

    def full_gradients(self, x: Vector, clients: torch.Tensor) -> Vector:
        return self.curvature[clients] * (x - self.centers[clients])

    def evaluate(self, x: Vector) -> dict[str, float]:
        loss = 0.5 * (self.pull * (x - self.centers) ** 2).sum(1).mean()
        return {"train_loss": float(loss), "distance": float((x - self.optimum).norm())}
