"""Run a gym: the trials of every rule in every setting, as one grid, with the same tuning for every rule.

All rules begin with the rates of the scale. While the best rate of any served model is the smallest or the largest
that was tried, the next one (half, or twice) is tried too. Then rates beside the tried ones follow until the rule has
had as many trials as every rule has at least. Each rate is run with every seed. Choices are made by the accuracy on
held-out samples, averaged over the seeds; test samples play no part in them, but for one thing. A rate with which
nothing was learned (not 10 points more than the initial model has on test samples) counts as one that diverged: among
such rates the best is a matter of chance, and the search would stop there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedswe.comparison.compare import run_to_end
from fedswe.comparison.labels import number_text
from fedswe.core.local import Precision
from fedswe.errors import FedsweError, warn
from fedswe.grid.runner import Executor, Watch
from fedswe.grid.store import Cell
from fedswe.gym.measurements import GymStore, Measured
from fedswe.gym.rules import OUTPUTS, RULES, Rule
from fedswe.gym.settings import Scale, Setting, settings_of

_STEP = 2.0  # between neighbouring rates
_LEARNED = 0.1  # by so much a model must be better than the initial one

Trials = Mapping[float, Sequence[Measured]]  # by rate: the rows of all seeds and served models


@dataclass(frozen=True)
class Gym:
    scale: Scale
    settings: list[Setting]
    rules: list[Rule]
    out: Path  # the results of a scale are in the folder of its name
    outputs: tuple[str, ...] = OUTPUTS
    device: str = "cpu"
    precision: Precision = "fp32"
    track: tuple[str, ...] = ()  # trackers of every run

    @property
    def store(self) -> GymStore:
        return GymStore(self.out / self.scale.name)

    def run(self, workers: Executor, watch: Watch | None = None) -> None:
        """Run all trials that are missing; finished ones are kept when this is stopped."""
        self.publish()  # what an interrupted command left
        self._refuse_other_arithmetic()
        while cells := self._next():
            run_to_end(cells, self.store, workers, watch)
            self.publish()

    def publish(self) -> None:
        """Put all finished runs into the table of the scale."""
        for setting in self.settings:
            self.store.publish(setting.name, setting.digest(self.outputs))

    def table(self, setting: Setting) -> dict[str, list[Measured]]:
        return self.store.table(setting.name, setting.digest(self.outputs))

    def trials(self, setting: Setting, rule: Rule) -> Trials:
        """The rates that have been run with every seed, with the rule as it is now."""
        seeds, known = set(self.scale.seeds), self.table(setting).get(rule.label, [])
        rows = [row for row in known if row.source == rule.source and row.seed in seeds]
        found = {rate: [row for row in rows if row.rate == rate] for rate in sorted({row.rate for row in rows})}
        return {rate: of for rate, of in found.items() if {row.seed for row in of} == seeds}

    @property
    def _arithmetic(self) -> str:
        return f"{self.device.partition(':')[0]} {self.precision}"

    def _refuse_other_arithmetic(self) -> None:
        """Rules that were measured on a CPU in fp32 are not compared with others on a GPU in bf16."""
        for setting in self.settings:
            others = {row.arithmetic for rows in self.table(setting).values() for row in rows} - {self._arithmetic}
            if others:
                device, precision = others.pop().split()
                given = f"--device {device} --precision {precision}"
                raise FedsweError(
                    f"{setting.name} in {self.store.path} was measured with {given}: give these, or another --out"
                )

    def _next(self) -> list[Cell]:
        return [
            self._cell(setting, rule, rate, seed)
            for setting in self.settings
            for rule in self.rules
            for rate in next_rates(self.trials(setting, rule), self.scale)
            for seed in self.scale.seeds
        ]

    def _cell(self, setting: Setting, rule: Rule, rate: float, seed: int) -> Cell:
        value = setting.experiment(rule.table, rate, seed, self.outputs)
        local = replace(value.local, precision=self.precision)
        notes = {
            "setting": setting.name, "rule": rule.label, "settings": setting.digest(self.outputs),
            "source": rule.source, "arithmetic": self._arithmetic,
        }  # fmt: skip
        name = f"{setting.name}/{rule.file_name}-lr{number_text(rate)}-seed{seed}"
        return Cell(name, replace(value, device=self.device, track=list(self.track), local=local), notes)


def whole_gym(gym: Gym) -> Gym:
    """Everything that is measured in the directory of a scale, whatever part of it one command has run.

    These are all settings of the scale, its rules and those of the command, and the user's own in the tables; a rule
    that cannot be loaded is left out.
    """
    whole = replace(gym, settings=settings_of(gym.scale), rules=[])
    labels = dict.fromkeys([*RULES[gym.scale.name], *(rule.label for rule in gym.rules)])
    for setting in whole.settings:
        labels |= dict.fromkeys(whole.table(setting))
    for rule in map(Rule, labels):
        try:
            rule.table  # noqa: B018
            whole.rules.append(rule)
        except FedsweError as error:
            warn(f"{rule.label} is measured, but left out of the page: {error}")
    return whole


# the same tuning for every rule -----------------------------------------------------------------------------
def next_rates(trials: Trials, scale: Scale) -> list[float]:
    """The rates to try next; none when the rule is done."""
    missing = [rate for rate in scale.rates if rate not in trials]
    if missing:
        return missing
    low, high = min(trials), max(trials)
    edges = at_edge(trials)
    wanted = [rate for edge, rate in ((low, low / _STEP), (high, high * _STEP)) if edge in edges]
    if wanted and len(trials) < scale.most_trials:
        return [_rounded(rate) for rate in wanted][: scale.most_trials - len(trials)]
    if len(trials) < scale.least_trials:
        # Inside the grid already: the side whose edge is better, for all served models together.
        found = _held_out(trials).values()
        better = max((low, high), key=lambda rate: math.fsum(max(of_rate[rate], -1.0) for of_rate in found))
        return [_rounded(low / _STEP if better == low else high * _STEP)]
    return []


def at_edge(trials: Trials) -> set[float]:
    """The smallest and the largest rate, if it is the best for some served model.

    Where every rate diverged, a smaller one is wanted.
    """
    best = {best_rate(trials, output) for output in _held_out(trials)}
    return {min(trials) if rate is None else rate for rate in best} & {min(trials), max(trials)}


def best_rate(trials: Trials, output: str) -> float | None:
    """The rate with the best held-out accuracy, smaller ones first; None if every one diverged."""
    scores = _held_out(trials)[output]
    best = max(scores, key=scores.__getitem__)
    return best if scores[best] > -math.inf else None


def _held_out(trials: Trials) -> dict[str, dict[float, float]]:
    """By served model and rate: the mean over seeds; minus infinity if it diverged with any, or learned nothing.

    fsum, because the sums of Python 3.11 and 3.12 differ in the last digit, and would decide ties differently.
    """
    found: dict[str, dict[float, list[float]]] = {}
    for rate in sorted(trials):
        for row in trials[rate]:
            lost = row.diverged or row.held_out < row.curve[0] + _LEARNED
            found.setdefault(row.output, {}).setdefault(rate, []).append(-math.inf if lost else row.held_out)
    return {output: {r: math.fsum(v) / len(v) for r, v in of.items()} for output, of in found.items()}


def _rounded(rate: float) -> float:
    """Without the rounding of repeated products: 0.025, not 0.025000000000000001."""
    return float(f"{rate:.6g}")
