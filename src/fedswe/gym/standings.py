"""Regret: by how much a rule stays behind the best one of a setting, when each has its own best rate and served model.

The rate and the served model of a rule are those with the best accuracy on held-out samples. The best rule of a setting
is then the one with the highest test accuracy: with many rules of equal merit this is partly luck, so that regrets are
slightly too large. Intervals are of the differences seed by seed: all rules see the same clients, data and rounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd

from fedswe.experiment.experiment import output_label
from fedswe.gym.gym import Gym, Trials, best_rate, next_rates
from fedswe.gym.measurements import Measured
from fedswe.gym.rules import Rule
from fedswe.gym.settings import Setting
from fedswe.results.table import Interval

TARGET = 0.9  # of the best accuracy of a setting: the target of rounds_to_target
_MEANS = ("worst_tenth", "rare", "never", "correlation", "reports", "wasted")


def entry(rule: Rule, trials: Trials, output: str) -> dict[str, Any] | None:
    """A rule in a setting at one served model, with the rate that is best there; None if every rate failed.

    Accuracies are in percent; `test` has one per seed, and `rows` the measurements. `edge`: the rate is the smallest or
    the largest tried, and a better one may lie outside.
    """
    rate = best_rate(trials, output)
    if rate is None:
        return None
    rows = [row for row in trials[rate] if row.output == output]
    return {
        "rule": rule, "label": rule.label, "output": output, "rate": rate,
        "edge": rate in (min(trials), max(trials)), "trials": len(trials), "test": [100 * row.test for row in rows],
        "held_out": 100 * float(np.mean([row.held_out for row in rows])), "rows": rows,
        **{name: _mean([getattr(row, name) for row in rows]) for name in _MEANS},
    }  # fmt: skip


def _mean(values: Sequence[float]) -> float:
    """Over the seeds that have it."""
    known = [value for value in values if not math.isnan(value)]
    return float(np.mean(known)) if known else math.nan


def reached(rows: Sequence[Measured], accuracy: float, time: Literal["rounds", "seconds"]) -> float:
    """The mean over seeds of the time of the first evaluation with this test accuracy.

    Infinity if one seed never has it; NaN in simulated seconds without a clock.
    """
    if not getattr(rows[0], time):
        return math.nan
    firsts = [
        next((t for t, value in zip(getattr(row, time), row.curve, strict=True) if value >= accuracy), math.inf)
        for row in rows
    ]
    return float(np.mean(firsts))


@dataclass(frozen=True)
class SettingResult:
    setting: Setting
    measured: Sequence[str]  # labels of rules
    entries: pd.DataFrame  # a row per rule and served model, where the rule has not failed
    incomplete: frozenset[str] = frozenset()  # rules that have not had all their trials here

    @cached_property
    def chosen(self) -> pd.DataFrame:
        """Every rule at its own best served model on held-out samples."""
        best = self.entries.groupby("label", sort=False)["held_out"].idxmax()
        return self.entries.loc[best].set_index("label", drop=False)

    @cached_property
    def best(self) -> pd.Series[Any]:
        """Of the rules that a user could run: no true probabilities, unless nothing else is measured."""
        usable = [label for label, rule in self.chosen["rule"].items() if not rule.aided]
        tests = self.chosen.loc[usable or self.chosen.index, "test"]
        return self.chosen.loc[tests.map(np.mean).idxmax()]

    def regret(self, test: Sequence[float]) -> Interval:
        return Interval.of([best - own for best, own in zip(self.best["test"], test, strict=True)])

    @property
    def target(self) -> float:
        """The accuracy, as a fraction, that the rounds to a target are counted to."""
        return TARGET * float(np.mean(self.best["test"])) / 100


def results(gym: Gym) -> list[SettingResult]:
    """The settings in which something is measured."""
    found = []
    for setting in gym.settings:
        trials = {rule: gym.trials(setting, rule) for rule in gym.rules}
        measured = {rule: of for rule, of in trials.items() if of}
        entries = [entry(rule, of, output) for rule, of in measured.items() for output in labels(gym)]
        incomplete = frozenset(rule.label for rule, of in trials.items() if next_rates(of, gym.scale))
        if any(entries):
            table = pd.DataFrame(filter(None, entries))
            found.append(SettingResult(setting, [rule.label for rule in measured], table, incomplete))
    return found


def ranked(found: Sequence[SettingResult]) -> list[SettingResult]:
    """The settings that rules are ranked over: those in which all rules have had all their trials; all if none is."""
    return [result for result in found if not result.incomplete] or list(found)


def labels(gym: Gym) -> list[str]:
    """The names of the served models in the measurements."""
    return [output_label(text) for text in gym.outputs]


def standings(found: Sequence[SettingResult], rules: Sequence[Rule], output: str = "") -> pd.DataFrame:
    """All rules, at their own best served model in each setting, or at one for all; the smallest worst regret first.

    `worst` is that regret, with an interval, and `in` its setting. Both it and the mean are missing for a rule that
    failed in a setting, or has not had all its trials there: then `in` says so. Such rules come last.
    """
    tests, rows = [], []
    for result in found:
        of = result.entries[result.entries["output"] == output] if output else result.chosen
        tests.append(dict(zip(of["label"], of["test"], strict=True)))
    for rule in rules:
        regrets, failed, missing = {}, [], []
        for result, by_rule in zip(found, tests, strict=True):
            name, test = result.setting.name, by_rule.get(rule.label)
            if rule.label not in result.measured or rule.label in result.incomplete:
                missing.append(name)
            elif test is None:
                failed.append(name)
            if test is not None:
                regrets[name] = result.regret(test)
        row: dict[str, Any] = {"rule": rule, "worst": None, "mean": math.nan, "failed": failed, "missing": missing}
        if failed or missing:
            what, names = ("failed in", failed) if failed else ("not completely measured in", missing)
            row["in"] = f"{what} {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")
        else:
            row["in"] = max(regrets, key=lambda name: regrets[name].mean)
            row |= {"worst": regrets[row["in"]], "mean": float(np.mean([of.mean for of in regrets.values()]))}
        rows.append(row)
    rows.sort(key=lambda row: (row["worst"].mean, row["mean"]) if row["worst"] else (math.inf, len(row["missing"])))
    return pd.DataFrame(rows)
