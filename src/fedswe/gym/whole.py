"""Everything that is measured in the directory of a scale, whatever part of it one command has run."""

from __future__ import annotations

from dataclasses import replace

from fedswe.errors import FedsweError, warn
from fedswe.gym.gym import Gym
from fedswe.gym.rules import RULES, Rule
from fedswe.gym.settings import settings_of


def whole_gym(gym: Gym) -> Gym:
    """All settings of the scale, and all rules; a rule that cannot be loaded is left out."""
    whole = replace(gym, settings=settings_of(gym.scale))
    return replace(whole, rules=_rules(whole))


def _rules(gym: Gym) -> list[Rule]:
    """Those of the scale and of this command, and the user's own in the tables."""
    labels = dict.fromkeys([*RULES[gym.scale.name], *(rule.label for rule in gym.rules)])
    for setting in gym.settings:
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
