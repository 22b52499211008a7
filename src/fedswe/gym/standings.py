"""Regret: by how much a rule stays behind the best one of a setting, when each has its own best rate and served model.

The rate and the served model of a rule are those with the best accuracy on held-out samples. The best rule of a setting
is then the one with the highest test accuracy: with many rules of equal merit this is partly luck, so that regrets are
slightly too large. Intervals are of the differences seed by seed: all rules see the same clients, data and rounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from fedswe.experiment.experiment import output_label
from fedswe.gym.gym import Gym, Trials, best_rate, next_rates
from fedswe.gym.measurements import Measured
from fedswe.gym.rules import Rule
from fedswe.gym.settings import Setting
from fedswe.results.table import Interval

TARGET = 0.9  # of the best accuracy of a setting: the target of rounds_to_target


@dataclass(frozen=True)
class Entry:
    """A rule in a setting at one served model: its rows with the chosen rate, a row per seed. Accuracies in percent."""

    rule: Rule
    output: str
    rate: float
    edge: bool  # the rate is the smallest or the largest tried: a better one may lie outside
    trials: int
    rows: tuple[Measured, ...]

    @property
    def test(self) -> list[float]:
        return [100 * row.test for row in self.rows]

    @property
    def held_out(self) -> float:
        return 100 * float(np.mean([row.held_out for row in self.rows]))

    def mean_of(self, name: str) -> float:
        """A number of the rows, averaged over the seeds that have it."""
        values = [value for row in self.rows if not math.isnan(value := getattr(row, name))]
        return float(np.mean(values)) if values else math.nan

    def reached(self, accuracy: float, time: Literal["rounds", "seconds"]) -> float:
        """The mean over seeds of the time of the first evaluation with this test accuracy.

        Infinity if one seed never has it; NaN in simulated seconds without a clock.
        """
        if not getattr(self.rows[0], time):
            return math.nan
        firsts = [
            next((t for t, value in zip(getattr(row, time), row.curve, strict=True) if value >= accuracy), math.inf)
            for row in self.rows
        ]
        return float(np.mean(firsts))


def entry(rule: Rule, trials: Trials, output: str) -> Entry | None:
    """None if nothing is measured or every rate failed."""
    rate = best_rate(trials, output) if trials else None
    if rate is None:
        return None
    rows = tuple(row for row in trials[rate] if row.output == output)
    return Entry(rule, output, rate, rate in (min(trials), max(trials)), len(trials), rows)


@dataclass(frozen=True)
class SettingResult:
    """All rules of one setting, each at every served model, and at the one that is best on held-out samples."""

    setting: Setting
    by_output: Mapping[str, Mapping[str, Entry]]  # rule, then served model; empty for a rule that always failed
    incomplete: frozenset[str] = frozenset()  # rules that have not had all their trials here

    @cached_property
    def chosen(self) -> dict[str, Entry]:
        """Every rule at its own best served model."""
        return {rule: max(of.values(), key=lambda e: e.held_out) for rule, of in self.by_output.items() if of}

    @cached_property
    def best(self) -> Entry:
        """Of the rules that a user could run: no true probabilities, unless nothing else is measured."""
        usable = [e for e in self.chosen.values() if not e.rule.aided]
        return max(usable or self.chosen.values(), key=lambda e: np.mean(e.test))

    def regret(self, found: Entry) -> Interval:
        return Interval.of([best - own for best, own in zip(self.best.test, found.test, strict=True)])

    @property
    def target(self) -> float:
        """The accuracy, as a fraction, that the rounds to a target are counted to."""
        return TARGET * float(np.mean(self.best.test)) / 100


def results(gym: Gym) -> list[SettingResult]:
    """The settings in which something is measured."""
    found = []
    for setting in gym.settings:
        trials = {rule: gym.trials(setting, rule) for rule in gym.rules}
        by_output = {
            rule.label: {output: e for output in labels(gym) if (e := entry(rule, of, output)) is not None}
            for rule, of in trials.items()
            if of
        }
        incomplete = frozenset(rule.label for rule, of in trials.items() if next_rates(of, gym.scale))
        if any(by_output.values()):
            found.append(SettingResult(setting, by_output, incomplete))
    return found


def ranked(found: Sequence[SettingResult]) -> list[SettingResult]:
    """The settings that rules are ranked over: those in which all rules have had all their trials; all if none is."""
    return [result for result in found if not result.incomplete] or list(found)


def labels(gym: Gym) -> list[str]:
    """The names of the served models in the measurements."""
    return [output_label(text) for text in gym.outputs]


@dataclass(frozen=True)
class Standing:
    """A rule over all settings, at its own best served model in each, or at one for all."""

    rule: Rule
    regrets: Mapping[str, Interval]  # by setting
    failed: tuple[str, ...]  # settings in which every rate diverged or learned nothing
    missing: tuple[str, ...] = ()  # settings in which it is not measured, or has not had all its trials

    @property
    def worst(self) -> tuple[str, Interval] | None:
        """None if there is none to compare: it failed somewhere, or was not measured."""
        whole = self.regrets and not self.failed and not self.missing
        return max(self.regrets.items(), key=lambda item: item[1].mean) if whole else None

    @property
    def mean(self) -> float:
        """NaN unless all settings are in it."""
        return float(np.mean([r.mean for r in self.regrets.values()])) if self.worst else math.nan

    @property
    def problem(self) -> str:
        """Why it has no worst regret."""
        for what, names in (("failed in", self.failed), ("not completely measured in", self.missing)):
            if names:
                return f"{what} {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")
        return ""


def standings(found: Sequence[SettingResult], rules: Sequence[Rule], output: str = "") -> list[Standing]:
    """All rules, the smallest worst-case regret first; those without one last."""
    rows = []
    for rule in rules:
        regrets, failed, missing = {}, [], []
        for result in found:
            name = result.setting.name
            entries = result.by_output.get(rule.label)
            own = None if entries is None else entries.get(output) if output else result.chosen.get(rule.label)
            if entries is None or rule.label in result.incomplete:
                missing.append(name)
            elif own is None:
                failed.append(name)
            if own is not None:
                regrets[name] = result.regret(own)
        rows.append(Standing(rule, regrets, tuple(failed), tuple(missing)))
    return sorted(rows, key=lambda row: (row.worst[1].mean, row.mean) if row.worst else (math.inf, len(row.missing)))
