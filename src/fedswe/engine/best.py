"""A choice among the outputs of a run, made during the run by their scores on held-out samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from fedswe.core.value import Value
from fedswe.errors import require

NO_HELD_OUT = "evaluate.model: best needs held-out samples: set task.hold_out, e.g. 0.1, or leave best out"


@dataclass(frozen=True)
class Best(Value):
    """Of the other models in evaluate.model, the one that is best on held-out samples.

    It is chosen anew at every evaluation: the highest held_out_accuracy (or the lowest held_out_loss), as a mean over
    the last few evaluations; of equal ones the first in evaluate.model. A model whose last score is not finite is not
    chosen while there is another. Between two evaluations the choice stays. It depends on the history only, and on no
    score of training or test samples. The column best_choice is the position of the chosen model in evaluate.model,
    counted from 0. It needs no memory and no evaluation of its own.
    """

    over: int = 3  # evaluations whose mean decides
    by: Literal["accuracy", "loss"] = "accuracy"  # the held-out score: accuracy, or loss

    title: ClassVar[str] = "of the other models, the one that is best on held-out samples"

    def __post_init__(self) -> None:
        require(self.over >= 1, f"best: over must be at least 1 evaluation, not {self.over}")

    def require_held_out(self, scores: Sequence[str]) -> None:
        """Refuse a task without the score."""
        wanted = f"held_out_{self.by}"
        require(any(score.startswith("held_out_") for score in scores), NO_HELD_OUT)
        require(
            wanted in scores, f"evaluate.model: the task has no score {wanted}: write best:by=loss, or leave best out"
        )

    def choice(self, names: Sequence[str], rows: Sequence[Mapping[str, float]]) -> str:
        """One of the models, by the last of these rows of the history."""
        return max(names, key=lambda name: self._worth([row.get(f"{name}_held_out_{self.by}") for row in rows]))

    def _worth(self, values: Sequence[float | None]) -> float:
        known = [math.nan if value is None else value for value in values[-self.over :]]
        if not known or not math.isfinite(known[-1]):
            return -math.inf
        finite = [value for value in known if math.isfinite(value)]
        mean = sum(finite) / len(finite)
        return mean if self.by == "accuracy" else -mean
