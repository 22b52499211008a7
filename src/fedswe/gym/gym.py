"""Run a gym: the trials of every rule in every setting, as one grid."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from fedswe.comparison.labels import number_text
from fedswe.core.local import Precision
from fedswe.errors import FedsweError
from fedswe.grid.runner import Executor, Watch, run_cells
from fedswe.grid.store import Cell
from fedswe.gym.measured import Measured
from fedswe.gym.rules import OUTPUTS, Rule
from fedswe.gym.settings import Scale, Setting
from fedswe.gym.store import GymStore, Key
from fedswe.gym.trials import next_rates


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

    @property
    def arithmetic(self) -> str:
        return f"{self.device.partition(':')[0]} {self.precision}"

    def run(self, workers: Executor, watch: Watch | None = None) -> None:
        """Run all trials that are missing; finished ones are kept when this is stopped."""
        self.publish()  # what an interrupted command left
        self._refuse_other_arithmetic()
        while cells := self._next():
            run_cells(cells, self.store, workers, watch)
            while not all(self.store.finished(cell) for cell in cells):  # another command runs the rest
                time.sleep(0.5)
                run_cells(cells, self.store, workers, watch)
            self.publish()

    def publish(self) -> None:
        """Put all finished runs into the tables of their settings."""
        for setting in self.settings:
            self.store.publish(setting.name, setting.digest(self.outputs))

    def table(self, setting: Setting) -> dict[Key, list[Measured]]:
        return self.store.table(setting.name, setting.digest(self.outputs))

    def trials(self, setting: Setting, rule: Rule) -> dict[float, list[Measured]]:
        """The rates that have been run with every seed, with the rule as it is now."""
        table = {key: rows for key, rows in self.table(setting).items() if key[0] == rule.label}
        same = {key: rows for key, rows in table.items() if all(row.source == rule.source for row in rows)}
        rates = sorted({rate for _, rate, _ in same})
        runs = {rate: [same.get((rule.label, rate, seed)) for seed in self.scale.seeds] for rate in rates}
        return {rate: [row for rows in found for row in rows or []] for rate, found in runs.items() if all(found)}

    def complete(self, setting: Setting, rule: Rule) -> bool:
        """Whether the rule has had all its trials."""
        return not next_rates(self.trials(setting, rule), self.scale)

    def _refuse_other_arithmetic(self) -> None:
        """Rules that were measured on a CPU in fp32 are not compared with others on a GPU in bf16."""
        for setting in self.settings:
            others = {row.arithmetic for rows in self.table(setting).values() for row in rows} - {self.arithmetic}
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
        value = replace(
            value, device=self.device, track=list(self.track), local=replace(value.local, precision=self.precision)
        )
        notes = {
            "setting": setting.name, "rule": rule.label, "settings": setting.digest(self.outputs),
            "source": rule.source, "arithmetic": self.arithmetic,
        }  # fmt: skip
        return Cell(f"{setting.name}/{rule.file_name}-lr{number_text(rate)}-seed{seed}", value, notes)
