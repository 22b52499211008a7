"""Regret: by how much a rule stays behind the best one of a setting, when each has its own best trial and served model.

Both are chosen on held-out samples, with seeds by which no rule is judged. The best rule of a setting is the one with
the highest test accuracy: with many rules of equal merit this is partly luck, so that regrets are slightly too large.
Differences to a fixed rule do not depend on who else is measured. Intervals are of the differences seed by seed: all
rules see the same clients, data and rounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from fedswe.core import keys
from fedswe.gym.gym import Gym, Tuning
from fedswe.gym.measurements import Measured
from fedswe.gym.rules import Rule
from fedswe.gym.settings import Setting
from fedswe.results.table import Interval

TARGET = 0.9  # of the best accuracy of a setting: the target of rounds_to_target
REFERENCE = "fedavg"  # the rule that all are compared with
_MEANS = ("worst_tenth", "rare", "never", "correlation")
_RESAMPLED = 2000  # times, for the intervals of the standings


def entry(rule: Rule, tuning: Tuning) -> dict[str, Any] | None:
    """A rule in a setting, at its chosen trial and served model; None if all trials failed, or a judged run diverged.

    Accuracies are in percent; `test` has one per seed, and `rows` the measurements. `cliff`: the points of held-out
    accuracy that are lost at twice the local rate, by the seeds for tuning.
    """
    if tuning.chosen is None:
        return None
    trial, output = tuning.chosen
    rows = tuning.of(trial, tuning.scale.seeds, output)
    if not rows or any(row.diverged for row in rows):
        return None
    scores = tuning.scores
    twice = max(scores.get(trial.times(2), math.nan), 0.0)
    return {
        "rule": rule, "label": rule.label, "trial": trial, "output": output, "rows": rows,
        "test": [100 * row.test for row in rows], "cliff": 100 * (scores[trial] - twice),
        **{name: _mean([getattr(row, name) for row in rows]) for name in _MEANS},
    }  # fmt: skip


def _mean(values: Sequence[float]) -> float:
    """Over the seeds that have it."""
    known = [value for value in values if not math.isnan(value)]
    return float(np.mean(known)) if known else math.nan


def reached(rows: Sequence[Measured], accuracy: float) -> float:
    """The mean over seeds of the first evaluated round with this test accuracy; infinity if one never has it."""
    firsts = [
        next((t for t, value in zip(row.rounds, row.curve, strict=True) if value >= accuracy), math.inf) for row in rows
    ]
    return float(np.mean(firsts))


@dataclass(frozen=True)
class SettingResult:
    setting: Setting
    measured: Sequence[str]  # labels of rules that have had all their runs here
    chosen: pd.DataFrame  # a row per rule that has not failed, by its label
    incomplete: frozenset[str] = frozenset()  # rules that have begun, and have not had all their runs

    @cached_property
    def best(self) -> pd.Series[Any]:
        """Of the rules that a user could run: no true probabilities, unless nothing else is measured."""
        usable = [label for label, rule in self.chosen["rule"].items() if not rule.aided]
        tests = self.chosen.loc[usable or self.chosen.index, "test"]
        return self.chosen.loc[tests.map(np.mean).idxmax()]

    def regret(self, label: str) -> Interval:
        return self.behind(label, self.best["label"])

    def behind(self, label: str, other: str) -> Interval:
        """By how much a rule is behind another; NaN where the other failed."""
        if other not in self.chosen.index:
            return Interval(math.nan, math.nan)
        own, theirs = self.chosen.loc[label, "test"], self.chosen.loc[other, "test"]
        return Interval.of([b - a for a, b in zip(own, theirs, strict=True)])

    @property
    def target(self) -> float:
        """The accuracy, as a fraction, that the rounds to a target are counted to."""
        return TARGET * float(np.mean(self.best["test"])) / 100


def results(gym: Gym) -> list[SettingResult]:
    """The settings in which something is measured to the end."""
    found = []
    for setting in gym.settings:
        tunings = {rule: tuning for rule in gym.rules if (tuning := gym.tuning(setting, rule)).rows}
        done = {rule: tuning for rule, tuning in tunings.items() if not tuning.next()}
        entries = [of for rule, tuning in done.items() if (of := entry(rule, tuning))]
        if entries:
            table = pd.DataFrame(entries).set_index("label", drop=False)
            left = frozenset(rule.label for rule in tunings.keys() - done.keys())
            found.append(SettingResult(setting, [rule.label for rule in done], table, left))
    return found


def standings(found: Sequence[SettingResult], rules: Sequence[Rule]) -> pd.DataFrame:
    """All rules, the smallest worst regret first; those that failed, or are not measured, in a setting come last.

    `worst` is the regret in the setting `in`, `mean` that over settings, `ahead` the mean difference to the reference,
    `cliffs` are the points lost at twice the rate, by setting, and `first` is the share of resampled seeds with which
    the rule has the smallest mean regret. The intervals of `mean` and `ahead`, and this share, are by resampling the
    seeds, with the best rule of each setting chosen anew each time.
    """
    rows: list[dict[str, Any]] = []
    whole = [r.label for r in rules if all(r.label in of.chosen.index for of in found)]
    draws = _resampled(found, whole) if whole else pd.DataFrame()
    usable = [rule.label for rule in rules if rule.label in whole and not rule.aided]
    top = draws[usable].idxmin(axis=1) if usable and found else pd.Series(dtype=object)
    for rule in rules:
        label = rule.label
        missing = [of.setting.name for of in found if label not in of.measured]
        failed = [of.setting.name for of in found if label in of.measured and label not in of.chosen.index]
        row: dict[str, Any] = {"rule": rule, "failed": failed, "missing": missing, "worst": None, "mean": None}
        if label in whole and found:
            regrets = {of.setting.name: of.regret(label) for of in found}
            row["in"] = max(regrets, key=lambda name: regrets[name].mean)
            row |= {"worst": regrets[row["in"]], "mean": _interval([*regrets.values()], draws[label])}
            row["first"] = float((top == label).mean())
            row["cliffs"] = [float(of.chosen.loc[label, "cliff"]) for of in found]
            if REFERENCE in whole:
                ahead = [of.behind(REFERENCE, label) for of in found]
                row["ahead"] = _interval(ahead, draws[REFERENCE] - draws[label])
        else:
            what, names = ("failed in", failed) if failed else ("not measured in", missing)
            row["in"] = f"{what} {', '.join(names[:1])}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")
        rows.append(row)
    rows.sort(
        key=lambda row: (row["worst"].mean, row["mean"].mean) if row["worst"] else (math.inf, len(row["missing"]))
    )
    return pd.DataFrame(rows)


def _interval(values: Any, draws: pd.Series[float]) -> Interval:
    low, high = np.quantile(draws, (0.025, 0.975))
    known = not any(math.isnan(value.half) for value in values)  # there are enough seeds
    return Interval(float(np.mean([value.mean for value in values])), float(high - low) / 2 if known else math.nan)


def _resampled(found: Sequence[SettingResult], labels: Sequence[str]) -> pd.DataFrame:
    """The mean regret of rules that are measured in all settings, for seeds drawn with replacement in each of them."""
    total, generator = np.zeros((_RESAMPLED, len(labels))), keys.generator(0, "resampled seeds")
    for of in found:
        everyone = [label for label, rule in of.chosen["rule"].items() if not rule.aided] or list(of.chosen.index)
        tests = np.array([of.chosen.loc[label, "test"] for label in [*labels, *everyone]])
        drawn = generator.integers(tests.shape[1], size=(_RESAMPLED, tests.shape[1]))
        means = tests[:, drawn].mean(-1).T  # [resampled, rules]
        total += means[:, len(labels) :].max(1, keepdims=True) - means[:, : len(labels)]
    return pd.DataFrame(total / max(len(found), 1), columns=list(labels))
