"""What advice needs of the gym's measurements; `python -m fedswe.gym.summary` writes it into the package."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedswe.gym.advice import FILE, RECOMMENDED, features_of
from fedswe.gym.gym import Gym
from fedswe.gym.page import entry_json
from fedswe.gym.rules import RULES, rules_named
from fedswe.gym.settings import SCALES, missing_traces, settings_of
from fedswe.gym.standings import SettingResult, results
from fedswe.results.files import write_whole

_KEPT = ("rule", "output", "rate", "test", "regret", "regret_half_width")


def summary(found: Sequence[SettingResult]) -> dict[str, Any]:
    """The recommended and the best rule of every setting in which all rules have had all their trials.

    Without those in simulated time: what is compared with them is described in rounds of one length.
    """
    settings = []
    for result in found:
        if result.incomplete or result.setting.timed or RECOMMENDED not in result.chosen:
            continue
        rules = dict.fromkeys((RECOMMENDED, result.best.rule.label))
        entries = (entry_json(result, result.chosen[rule]) for rule in rules)
        settings.append(
            {
                "task": result.setting.task,
                "availability": result.setting.availability,
                "features": {name: round(value, 4) for name, value in features_of(result.setting).items()},
                "best": result.best.rule.label,
                "rules": [{name: entry[name] for name in _KEPT} for entry in entries],
            }
        )
    return {"recommended": RECOMMENDED, "settings": settings}


def measured(out: Path, tasks: tuple[str, ...] = ()) -> list[SettingResult]:
    """The settings of the small scale in this folder whose traces are here."""
    scale = SCALES["small"]
    settings = settings_of(scale, tasks)
    gone = missing_traces(settings)
    return results(Gym(scale, [s for s in settings if s not in gone], rules_named(RULES["small"]), out))


if __name__ == "__main__":
    text = json.dumps(summary(measured(Path("experiments/gym"))), indent=1)
    write_whole(Path(__file__).with_name(FILE), text + "\n")
