"""A transform of your own, here sign descent with a threshold.

fedswe run local.chain=./examples/own_transform.py:Sign local.lr=0.01
fedswe run algorithm.name=fedavg algorithm.chain=./examples/own_transform.py:Sign:0.1 algorithm.lr=0.01
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from fedswe.core.records import Nothing, Vector
from fedswe.core.transforms import Transform


@dataclass(frozen=True)
class Sign(Transform):
    """The sign of every coordinate larger than `threshold`, 0 for the others."""

    threshold: float = 0.0  # coordinates up to this size do not move

    title: ClassVar[str] = "sign descent"

    def __call__(self, v: Vector, state: Nothing, x: Vector, start: Vector) -> tuple[Vector, Any]:
        return v.sign() * (v.abs() > self.threshold), state
