"""Everything that is measured in the directory of a scale, whatever part of it one command has run."""

from __future__ import annotations

from dataclasses import replace

from fedswe.errors import FedsweError, warn
from fedswe.gym.gym import Gym
from fedswe.gym.rules import RULES, Rule
from fedswe.gym.settings import Setting, missing_traces, settings_of


def whole_gym(gym: Gym) -> Gym:
    """All settings and all rules; what cannot be loaded is left out."""
    return replace(gym, settings=_settings(gym), rules=_rules(gym))


def _settings(gym: Gym) -> list[Setting]:
    """Those of the scale; without its trace a setting cannot be told from another."""
    settings = settings_of(gym.scale)
    gone = missing_traces(settings)
    return [setting for setting in settings if setting not in gone]


def _rules(gym: Gym) -> list[Rule]:
    """Those of the scale and of this command, and the user's own in the tables."""
    labels = dict.fromkeys([*RULES[gym.scale.name], *(rule.label for rule in gym.rules)])
    for setting in _settings(gym):
        labels |= dict.fromkeys(label for label, _, _ in gym.table(setting))
    rules = []
    for label in labels:
        rule = Rule(label)
        try:
            rule.table  # noqa: B018
            rules.append(rule)
        except FedsweError as error:
            warn(f"{label} is measured, but left out of the page: {error}")
    return rules
