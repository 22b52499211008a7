"""Runs as a report judges them: final scores, who is best within the noise, and how far a score fluctuates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedswe.figures.drawn import Drawn, groups_by_model, headline_of, models_of, scores_of, unit_of, words
from fedswe.figures.groups import Group
from fedswe.figures.measured import MeasuredRun
from fedswe.report.noise import Finals, Ranking, on_common_seeds, ranking
from fedswe.results.table import TAIL

_SCORES = 40  # that are shown
_FEW = 4  # evaluations in the last rounds, below which a fluctuation is not computed


@dataclass(frozen=True)
class Judged:
    """Runs and the score that they are judged by."""

    runs: Sequence[MeasuredRun]

    @cached_property
    def models(self) -> list[str]:
        return models_of(self.runs, [])

    @cached_property
    def scores(self) -> list[str]:
        """Of those of all runs at all models the first few, the one to read first at the beginning."""
        found = scores_of(self.runs, self.models)
        if not found:
            return []
        first = headline_of(self.runs, self.models)
        return [first, *(name for name in found if name != first)][:_SCORES]

    @property
    def score(self) -> str:
        return self.scores[0]

    @cached_property
    def per_model(self) -> dict[str, Drawn]:
        return groups_by_model(self.runs, self.models, self.score)

    @property
    def percent(self) -> bool:
        return self.score.endswith("accuracy")

    @property
    def more_is_better(self) -> bool | None:
        """None where nothing says so."""
        if self.percent:
            return True
        return False if self.score.endswith(("loss", "error", "distance")) else None

    @cached_property
    def unfinished(self) -> list[MeasuredRun]:
        """Runs that have no final score: they are not finished, and others have more or fewer rounds."""
        if len({run.history.last["round"] for run in self.runs}) == 1:
            return []
        return [run for run in self.runs if is_unfinished(run)]

    def _counted(self, group: Group) -> list[MeasuredRun]:
        return [run for run in group.runs if run.history.last["round"] > 0 and run not in self.unfinished]

    @cached_property
    def every_final(self) -> dict[str, dict[str, Finals]]:
        """By model and name, the final score of every seed; infinite where the run diverged."""
        factor = unit_of(self.score)[0]
        return {
            model: {
                group.name: {run.seed: factor * drawn.final(run) for run in self._counted(group)}
                for group in drawn.groups
            }
            for model, drawn in self.per_model.items()
        }

    @cached_property
    def finals(self) -> dict[str, dict[str, Finals]]:
        """Those of the seeds over which names are compared."""
        return {model: on_common_seeds(of) for model, of in self.every_final.items()}

    @cached_property
    def left_out(self) -> list[int]:
        """Seeds that some names have and others do not, which are in no mean."""
        return sorted(
            {
                seed
                for model, of in self.every_final.items()
                for name, finals in of.items()
                for seed in finals
                if seed not in self.finals[model][name]
            }
        )

    @cached_property
    def rankings(self) -> dict[str, Ranking | None]:
        """By model, where it is known whether more or less is better."""
        better = self.more_is_better
        return {model: None if better is None else ranking(of, better) for model, of in self.finals.items()}

    @cached_property
    def names(self) -> list[str]:
        """Of the groups of runs, in their order."""
        return list(dict.fromkeys(group.name for drawn in self.per_model.values() for group in drawn.groups))

    @cached_property
    def fluctuations(self) -> dict[str, dict[str, float]]:
        """By model and name, the mean over seeds of how far the score fluctuates in the last rounds."""
        factor = unit_of(self.score)[0]
        return {
            model: {
                group.name: factor * float(np.mean([_fluctuation(run, drawn) for run in counted]))
                for group in drawn.groups
                if (counted := self._counted(group))
            }
            for model, drawn in self.per_model.items()
        }

    def order(self) -> list[str]:
        """All names, the best first by the first model; those that diverged last."""
        sign = -1.0 if self.more_is_better in (True, None) else 1.0
        worth: dict[str, float] = {}
        for of in self.finals.values():
            for name, finals in of.items():
                mean = float(np.mean(list(finals.values()))) if finals else math.inf
                worth.setdefault(name, sign * mean if math.isfinite(mean) else math.inf)
        return sorted(worth, key=worth.__getitem__)

    @property
    def tail(self) -> str:
        """The rounds that a final score is the mean of; those of a shorter run are all its rounds."""
        return f"{min(TAIL, max(run.history.last['round'] for run in self.runs)):g}"

    def shown(self, value: float) -> str:
        return f"{value:.1f}" if self.percent else f"{value:.4g}"


def is_unfinished(run: MeasuredRun) -> bool:
    """Without final models, and with fewer rounds than its configuration says."""
    rounds = run.config.get("rounds")
    return not run.sizes and isinstance(rounds, int) and run.history.last["round"] < rounds


def _fluctuation(run: MeasuredRun, drawn: Drawn) -> float:
    """The standard deviation of independent values with the same second differences: a steady rise is not in it."""
    first = max(run.history.last["round"] - TAIL, 0)
    values = drawn.values(run)[run.history["round"] > first]
    if len(values) < _FEW or not np.isfinite(values).all():
        return math.nan
    return float(np.sqrt(np.mean(np.diff(values, 2) ** 2) / 6))


def model_words(model: str) -> str:
    """What a served model is called in sentences."""
    return "server model" if model == "server" else words(model)
