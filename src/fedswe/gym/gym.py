"""Run a gym: the trials of every rule in every setting, as one grid, with the same search for every rule.

Trials run with the seeds for tuning, and the choice among them is made by the accuracy on held-out samples, at the
served model that is best there. The trial that is chosen then runs with the seeds by which rules are judged, and once
more at twice its local rate, which tells how sensitive the rule is. Test samples play no part in a choice, but for one
thing: a trial in which nothing was learned (not 10 points more than the initial model has on test samples) counts as
one that diverged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from fedswe.comparison.compare import run_to_end
from fedswe.comparison.labels import file_name
from fedswe.core.local import Precision
from fedswe.errors import FedsweError, warn
from fedswe.grid.runner import Executor, Watch
from fedswe.grid.store import Cell
from fedswe.gym.measurements import GymStore, Measured
from fedswe.gym.rules import OUTPUTS, RULES, Rule
from fedswe.gym.settings import Scale, Setting, settings_of
from fedswe.gym.trial import Trial, best

_LEARNED = 0.1  # by so much a model must be better than the initial one

Trials = Mapping[Trial, Sequence[Measured]]  # the rows of the seeds that ran, and of all served models


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
        self._refuse_other_arithmetic()
        while cells := self._next():
            run_to_end(cells, self.store, workers, watch)

    def publish(self) -> None:
        """Put all finished runs into the table of the scale."""
        for setting in self.settings:
            self.store.publish(setting.name, setting.digest(self.outputs))

    def table(self, setting: Setting) -> dict[str, list[Measured]]:
        return self.store.table(setting.name, setting.digest(self.outputs))

    def tuning(self, setting: Setting, rule: Rule) -> Tuning:
        """What has been run, with the rule as it is now."""
        found: dict[Trial, list[Measured]] = {}
        for row in self.table(setting).get(rule.label, []):
            if row.source == rule.source:
                found.setdefault(row.trial, []).append(row)
        return Tuning(self.scale, found)

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
            self._cell(setting, rule, trial, seed)
            for setting in self.settings
            for rule in self.rules
            for trial, seed in self.tuning(setting, rule).next()
        ]

    def _cell(self, setting: Setting, rule: Rule, trial: Trial, seed: int) -> Cell:
        value = setting.experiment(rule.table, trial, seed, self.outputs)
        local = replace(value.local, precision=self.precision)
        notes = {
            "setting": setting.name, "rule": rule.label, "settings": setting.digest(self.outputs),
            "source": rule.source, "arithmetic": self._arithmetic, **asdict(trial),
        }  # fmt: skip
        own = f"-{rule.source}" if rule.source else ""  # of a file that may change
        name = f"{setting.name}/{rule.file_name}{own}-{file_name(trial.name)}-seed{seed}"
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


@dataclass(frozen=True)
class Tuning:
    """What was run of a rule in a setting, and what follows from it."""

    scale: Scale
    rows: Trials

    def next(self) -> list[tuple[Trial, int]]:
        """The trials to run next, each with a seed; none when the rule is done here."""
        scale = self.scale
        _, wanted = scale.search.walk(self.scores)
        if wanted:
            runs = [(trial, seed) for trial in wanted for seed in scale.tuning_seeds]
        elif self.chosen is None:
            runs = []
        else:
            trial, _ = self.chosen
            runs = [(trial.times(2), seed) for seed in scale.tuning_seeds]
            runs += [(trial, seed) for seed in scale.seeds]
        return [(trial, seed) for trial, seed in runs if not self.of(trial, (seed,))]

    def of(self, trial: Trial, seeds: Sequence[int], output: str = "") -> list[Measured]:
        """The rows of a trial with these seeds, at one served model or all; none if one of the seeds has not run."""
        rows = sorted((row for row in self.rows.get(trial, ()) if row.seed in seeds), key=lambda row: row.seed)
        whole = {row.seed for row in rows} == set(seeds)
        return [row for row in rows if output in ("", row.output)] if whole else []

    @property
    def scores(self) -> dict[Trial, float]:
        """By trial that has run with all seeds for tuning: its score at its best served model."""
        found = {trial: self._by_output(trial) for trial in self.rows}
        return {trial: max(of.values()) for trial, of in found.items() if of}

    @property
    def chosen(self) -> tuple[Trial, str] | None:
        """The best trial of the search, and its served model; None if every one diverged, or there is none."""
        scores = self.scores
        trials, _ = self.scale.search.walk(scores)
        if not trials or scores[trial := best(trials, scores)] == -math.inf:
            return None
        of = self._by_output(trial)
        return trial, max(of, key=of.__getitem__)

    def _by_output(self, trial: Trial) -> dict[str, float]:
        """The mean held-out accuracy over the seeds for tuning; minus infinity if one diverged, or learned nothing.

        fsum, because the sums of Python 3.11 and 3.12 differ in the last digit, and would decide ties differently.
        """
        found: dict[str, list[float]] = {}
        for row in self.of(trial, self.scale.tuning_seeds):
            lost = row.diverged or row.held_out < row.curve[0] + _LEARNED
            found.setdefault(row.output, []).append(-math.inf if lost else row.held_out)
        return {output: math.fsum(of) / len(of) for output, of in found.items()}
