"""A model of your own to evaluate, here the plain average of all server models so far.

fedswe run "evaluate.model=[server,./examples/own_output.py:RunningMean]"
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedswe.core.records import Scalar, Vector
from fedswe.engine.outputs import Output, Run


@dataclass(frozen=True)
class Sum:
    """State is a frozen record of tensors: it is saved in checkpoints and restored from them."""

    total: Vector
    count: Scalar


@dataclass(frozen=True)
class RunningMean(Output):
    title: ClassVar[str] = "the average of all server models"

    def init(self, run: Run) -> Sum:
        x = run.server_model()
        return Sum(x, x.new_ones((1,)))

    def after_round(self, state: Sum, run: Run) -> Sum:
        return Sum(state.total + run.server_model(), state.count + 1)

    def model(self, state: Sum, run: Run) -> Vector:
        return state.total / state.count
