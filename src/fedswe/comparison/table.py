"""The result of a comparison as tables: every score of every run, and mean and standard deviation over seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedswe.comparison.labels import number_text
from fedswe.plotting import csv_text
from fedswe.results.history import History, divergence, written
from fedswe.results.table import TAIL, headline

COLUMNS = ("algorithm", "seed", "local_lr", "tuning", "chosen", "round", "model", "score", "value")


def tail_score(history: History, column: str) -> float:
    """A score at the end of a run: its mean over the last rounds."""
    with np.errstate(over="ignore", invalid="ignore"):  # scores of a diverged run may exceed any number
        return history.tail_mean(column, TAIL)


def has_diverged(history: History, prefix: str, column: str, models: Iterable[str] = ()) -> bool:
    """Whether columns that begin with `prefix`, and are of no other model, show that a model diverged, or this column
    is not finite at the end.

    Such a run is in no mean.
    """
    return bool(divergence(history, prefix, models)) or not math.isfinite(tail_score(history, column))


@dataclass(frozen=True)
class ComparedRun:
    """One run of a comparison."""

    label: str  # of the algorithm
    seed: int
    rate: float  # local.lr
    tuning: bool  # it was run to choose a rate, and is not reported
    history: History


@dataclass(frozen=True)
class ComparisonRow:
    """An algorithm, evaluated at one model, over seeds, with the rate that was chosen for the two."""

    label: str
    model: str
    rate: float
    seeds: tuple[int, ...]
    histories: list[History]  # one per seed
    models: tuple[str, ...] = ()  # all that the runs evaluated

    @property
    def scores(self) -> list[str]:
        """The names of the scores of the model."""
        prefix = f"{self.model}_"
        return [c.removeprefix(prefix) for c in self.histories[0].columns if c.startswith(prefix)]

    def by_seed(self, score: str) -> list[float]:
        """A score of each seed, averaged over the last rounds."""
        return [tail_score(history, f"{self.model}_{score}") for history in self.histories]

    def to_target(self, score: str, target: float) -> tuple[list[float | None], list[float | None]]:
        """For each seed the round, and the simulated seconds, after which the score first reached a target.

        None where it never did; without seconds where the runs have no simulated time.
        """
        column = f"{self.model}_{score}"
        timed = [history for history in self.histories if "simulated_seconds" in history.columns]
        rounds = [history.rounds_to(column, target) for history in self.histories]
        return rounds, [history.seconds_to(column, target) for history in timed]

    def diverged(self, score: str) -> int:
        """In how many runs the model diverged, or the score is not finite."""
        prefix = f"{self.model}_"
        return sum(has_diverged(history, prefix, f"{prefix}{score}", self.models) for history in self.histories)

    def score(self, name: str) -> tuple[float, float]:
        """Mean and standard deviation over seeds; NaN is the deviation of one, and both if a run diverged."""
        values = self.by_seed(name)
        if self.diverged(name):
            return math.nan, math.nan
        return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


@dataclass(frozen=True)
class Comparison:
    runs: list[ComparedRun]
    rows: list[ComparisonRow]

    @property
    def scores(self) -> list[str]:
        """The scores that all models have: another column may also begin with the name of a model."""
        return [name for name in self.rows[0].scores if all(name in row.scores for row in self.rows)]

    @property
    def headline(self) -> str | None:
        """The score to read first, of those that all models have."""
        return headline(self.scores)

    def best(self, model: str) -> str | None:
        """The label with the best headline score; None where nothing says whether more or less is better."""
        score = self.headline
        if score is None or not score.endswith(("accuracy", "loss")):
            return None
        means = {row.label: row.score(score)[0] for row in self.rows if row.model == model}
        finite = {label: mean for label, mean in means.items() if math.isfinite(mean)}
        pick = max if score.endswith("accuracy") else min
        return pick(finite, key=finite.__getitem__) if finite else None

    # every score of every run ----------------------------------------------------------------------------------------
    def table(self) -> list[dict[str, Any]]:
        """A row per algorithm, seed, local rate, round, model and score.

        `tuning` marks the runs that only served to choose a rate, `chosen` the rate that was chosen for the algorithm
        and the model. Means and standard deviations are those of the rows that are chosen and not tuning.
        """
        chosen = {(row.label, row.model): row.rate for row in self.rows}
        models, scores = list(dict.fromkeys(model for _, model in chosen)), self.scores
        return [
            dict(zip(COLUMNS, (run.label, run.seed, run.rate, run.tuning, run.rate == chosen[run.label, model],
                               int(row["round"]), model, score, row[f"{model}_{score}"]), strict=True))
            for run in self.runs
            for row in run.history.rows
            for model in models
            for score in scores
        ]  # fmt: skip

    def to_csv(self) -> str:
        """The table as CSV, numbers with all digits."""
        return csv_text(COLUMNS, (map(_text, row.values()) for row in self.table()))

    def to_pandas(self) -> Any:
        """The table as a data frame of pandas."""
        import pandas

        return pandas.DataFrame(self.table(), columns=list(COLUMNS))

    # over seeds --------------------------------------------------------------------------------------------------
    def summary_csv(self) -> str:
        """A line per algorithm and model: mean and standard deviation over seeds of the last rounds of each score."""
        names = self.scores
        spread = [f"{name}_{part}" for name in names for part in ("mean", "std")]
        return csv_text(
            ["algorithm", "model", "local_lr", "seeds", "diverged", *spread],
            (
                [
                    row.label, row.model, number_text(row.rate), len(row.seeds),
                    max(map(row.diverged, names), default=0),
                    *(f"{value:.6g}" for name in names for value in row.score(name)),
                ]
                for row in self.rows
            ),
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """The summary as plain values; null stands for numbers that are not finite."""
        return {
            "headline": self.headline,
            "tail": TAIL,
            "rows": [
                {
                    "algorithm": row.label,
                    "model": row.model,
                    "local_lr": row.rate,
                    "diverged": max(map(row.diverged, row.scores), default=0),
                    "scores": {
                        name: dict(zip(("mean", "std"), map(_finite, row.score(name)), strict=True))
                        for name in row.scores
                    },
                    "seeds": {
                        str(seed): dict(zip(row.scores, map(_finite, values), strict=True))
                        for seed, *values in zip(row.seeds, *map(row.by_seed, row.scores), strict=True)
                    },
                }
                for row in self.rows
            ],
        }


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return written(value) if isinstance(value, int | float) else str(value)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
