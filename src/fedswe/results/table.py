"""The results table: a row per run, round, model and score, and what is computed of it over seeds.

It is a tidy data frame. Its columns are those of the settings (label, local_lr, ...), then seed, round, model, score
and value; the model of a column that belongs to none is "". What is computed over seeds is taken from finals: a data
frame with a row per seed and a column per label, infinite where a run diverged and NaN where there is no run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from fedswe.errors import FedsweError, needed
from fedswe.results.files import write_whole
from fedswe.results.history import History, divergence

TAIL = 50  # rounds at the end over which scores are averaged, as in the paper
CONFIDENCE = 0.95  # on both sides together
SEEDS = 3  # with fewer, nothing is said about how sure a number is
_FEW = 4  # evaluations in the last rounds, below which a fluctuation is not computed
_DICTIONARY = 1 << 25  # bytes: numbers of few digits, and texts that many rows share, are stored once

Place = Literal["best", "level", "unclear", "second", "lower"]


# the table ---------------------------------------------------------------------------------------------------
def owner(column: str, models: Iterable[str]) -> str:
    """The model that a column belongs to, "" if it is none: ema_client_mean_test_loss is not a score of ema."""
    return max((model for model in models if column.startswith(f"{model}_")), key=len, default="")


def long(runs: Iterable[tuple[Mapping[str, Any], History]], models: Sequence[str]) -> pd.DataFrame:
    """The table of runs, each with its settings (its seed is one of them) and its history."""
    parts = []
    for settings, history in runs:
        part = history.table.melt(id_vars="round", var_name="column").sort_values("round", kind="stable")
        of = {column: owner(column, models) for column in history.columns}
        part["model"] = part["column"].map(of)
        part["score"] = [c.removeprefix(f"{of[c]}_") if of[c] else c for c in part["column"]]
        parts.append(part[["round", "model", "score", "value"]].assign(**settings))
    table = pd.concat(parts, ignore_index=True)
    first = [column for column in table.columns if column not in ("round", "model", "score", "value")]
    return table[[*first, "round", "model", "score", "value"]]


def common_scores(rows: pd.DataFrame, key: Sequence[str]) -> list[str]:
    """Of final scores those that all runs have for all their models; `key` are the columns that tell run and model."""
    counts = rows.groupby("score", sort=False).size()
    return [str(score) for score in counts.index[counts == len(rows.drop_duplicates(key))]]


def headline(scores: Sequence[str], wanted: str | None = None) -> str | None:
    """The score to read first: the wanted one (evaluate.score), the test accuracy, the first loss, or the first."""
    losses = [name for name in scores if name.endswith("loss")]
    return next((name for name in (wanted, "test_accuracy", *losses, *scores) if name in scores), None)


def in_words(name: str) -> str:
    """A score or a model as it is shown."""
    return name.replace("_", " ")


def more_is_better(score: str) -> bool | None:
    """None where the name of a score does not say it."""
    if score.endswith(("accuracy", "auc", "r2", "f1")):
        return True
    return False if score.endswith(("loss", "error", "distance", "mae", "rmse")) else None


# in a file: a long table that is appended to, and whole at every moment --------------------------------------
def select(path: Path, **equal: object) -> pd.DataFrame:
    """The rows in which these columns have these values; none where the file is not there. Texts are categories."""
    needed("pyarrow", "paper")
    if not path.is_file():
        return pd.DataFrame()
    try:
        return pd.read_parquet(path, filters=[(name, "==", value) for name, value in equal.items()] or None)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise FedsweError(f"{path} is damaged ({reason}): restore it, or delete it to measure again") from None


def append(path: Path, rows: pd.DataFrame, key: Sequence[str]) -> None:
    """Add rows, in the place of those with the same key; the file is sorted by the key.

    Two processes must not append at once: the caller holds a lock.
    """
    there, names = select(path), list(key)
    if len(there):
        replaced = pd.MultiIndex.from_frame(there[names]).isin(pd.MultiIndex.from_frame(rows[names].drop_duplicates()))
        rows = pd.concat([there[~replaced], rows])
    rows = rows.astype(dict.fromkeys(rows.select_dtypes(exclude="number"), "category"))
    content = rows.sort_values(names, kind="stable", ignore_index=True).to_parquet(
        compression="zstd", compression_level=19, row_group_size=1 << 24, dictionary_pagesize_limit=_DICTIONARY
    )
    write_whole(path, content)


# one run -------------------------------------------------------------------------------------------------------
def final_scores(history: History, model: str, models: Iterable[str]) -> list[dict[str, Any]]:
    """Each score of a model, averaged over the last rounds, and whether the run diverged; "" has the other columns.

    It diverged if a column of the model says so, or if the mean is not finite.
    """
    untrained, prefix, found = history.last["round"] == 0, f"{model}_" if model else "", []
    for column in (column for column in history.columns if column != "round" and owner(column, models) == model):
        with np.errstate(over="ignore", invalid="ignore"):  # scores of a diverged run may exceed any number
            value = math.nan if untrained else history.tail_mean(column, TAIL)
        diverged = bool(divergence(history, prefix or column, models)) or not (untrained or math.isfinite(value))
        found.append({"score": column.removeprefix(prefix), "value": value, "diverged": diverged})
    return found


def fluctuation(rounds: Sequence[float], values: Sequence[float]) -> float:
    """How far a score moves up and down from one evaluation to the next in the last rounds.

    It is the standard deviation of independent values with the same second differences: a steady rise is not in it.
    """
    at, tail = np.asarray(rounds), np.asarray(values, dtype=np.float64)
    tail = tail[at > max(at[-1] - TAIL, 0)]
    if len(tail) < _FEW or not np.isfinite(tail).all():
        return math.nan
    return float(np.sqrt(np.mean(np.diff(tail, 2) ** 2) / 6))


# over seeds ----------------------------------------------------------------------------------------------------
def by_seed(rows: pd.DataFrame, label: str) -> pd.DataFrame:
    """Final scores of one model as finals, with a column for each value of the column `label`."""
    finals = rows.assign(value=rows["value"].mask(rows["diverged"], np.inf))
    return finals.pivot(index="seed", columns=label, values="value")[rows[label].unique()]


def diverged_text(finals: npt.ArrayLike) -> str:
    """How many of the seeds diverged; empty if none did."""
    lost, seeds = int(np.isinf(finals).sum()), int((~np.isnan(finals)).sum())
    if not lost:
        return ""
    return "diverged" if lost == seeds else f"{lost} of {seeds} diverged"


@lru_cache
def quantile(freedom: float) -> float:
    """How many standard errors half an interval has, by the degrees of freedom of the error; NaN if there are none."""
    from scipy.special import stdtrit  # quantiles of Student's t, without the slow import of scipy.stats

    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) if freedom else math.nan


@dataclass(frozen=True)
class Interval:
    """A mean over seeds, and half the width of its confidence interval; NaN with fewer than three seeds."""

    mean: float
    half: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Interval:
        n, mean = len(values), float(np.mean(values))
        if n < SEEDS:
            return cls(mean, math.nan)
        return cls(mean, float(quantile(n - 1) * np.std(values, ddof=1) / math.sqrt(n)))

    def text(self, digits: int) -> str:
        return f"{self.mean:.{digits}f}" + ("" if math.isnan(self.half) else f" ± {self.half:.{digits}f}")


def difference(finals: pd.DataFrame, label: str, other: str) -> Interval:
    """The mean of label - other with its 95 % interval: seed by seed if both have the same seeds, and else by Welch's.

    So it is the difference of the two means by which a ranking is ordered. The interval is NaN if either has fewer than
    three seeds, and mean and interval are if a run diverged.
    """
    a, b = finals[label].dropna(), finals[other].dropna()
    if not np.isfinite([*a, *b]).all():
        return Interval(math.nan, math.nan)
    if len(a) > 1 and a.index.equals(b.index):
        return Interval.of(list(a - b))
    mean = float(np.mean(a) - np.mean(b))
    if min(len(a), len(b)) < SEEDS:
        return Interval(mean, math.nan)
    squares = [float(np.var(values, ddof=1)) / len(values) for values in (a, b)]
    if not sum(squares):
        return Interval(mean, 0.0)
    freedom = sum(squares) ** 2 / sum(s**2 / (len(v) - 1) for s, v in zip(squares, (a, b), strict=True))
    return Interval(mean, quantile(freedom) * math.sqrt(sum(squares)))


def differs(finals: pd.DataFrame, label: str, other: str) -> bool | None:
    """Whether 0 is outside the interval of the difference; None if there is no interval."""
    found = difference(finals, label, other)
    return None if math.isnan(found.half) else abs(found.mean) > found.half


def on_common_seeds(finals: pd.DataFrame) -> pd.DataFrame:
    """Only the seeds that all labels with several seeds have, if these are at least two; else all seeds.

    A label of which a run diverged is in no ranking: it keeps its seeds, and the others need not have them.
    """
    several = [c for c in finals if finals[c].notna().sum() > 1 and np.isfinite(finals[c].dropna()).all()]
    common = finals[several].notna().all(axis="columns")
    if not several or common.sum() < 2:
        return finals
    return finals.where(common, finals.drop(columns=several)).dropna(how="all")


def ranking(finals: pd.DataFrame, more: bool) -> dict[str, Place]:
    """The place of every label whose finals are all finite, the best mean first.

    level: cannot be told from the best, and nobody before them can. unclear: cannot be told from the best either, but
    behind one that can, as their seeds differ. second: of those that can be told from the best, the best and who is
    level with that. lower: all others.
    """
    means = {str(label): float(np.mean(values)) for label in finals if len(values := finals[label].dropna())}
    order = sorted((n for n in means if math.isfinite(means[n])), key=means.__getitem__, reverse=more)
    if not order:
        return {}

    def level(first: str, others: Sequence[str]) -> set[str]:
        return set(takewhile(lambda name: differs(finals, name, first) is False, others))

    best, *others = order
    told = [name for name in others if differs(finals, name, best)]
    near, second = level(best, others), {told[0], *level(told[0], told[1:])} if told else set()

    def place(name: str) -> Place:
        if name in told:
            return "second" if name in second else "lower"
        return "best" if name == best else "level" if name in near else "unclear"

    return {name: place(name) for name in order}
