"""Configurations of earlier versions, which had fewer keys."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

from fedswe import registry
from fedswe.experiment.configuration import DEFAULT, PLAIN
from fedswe.experiment.experiment import Experiment
from fedswe.registry import KINDS

_PLAIN_VALUES = (bool, int, float, str, list, tuple)


def with_defaults(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration with the defaults of missing keys, as a run has them written out.

    Classes of the user keep the keys that they have: to draw a run, none of its own files is needed.
    """
    named = {section: {"name": name} for section, name in DEFAULT.items()}
    complete = {**_defaults(Experiment), **named, **config}
    for section, part in list(complete.items()):
        if not isinstance(part, dict):
            continue
        if section in PLAIN:
            complete[section] = {**_defaults(PLAIN[section]), **part}
        elif section in DEFAULT and part.get("name") in KINDS[section].builtin:
            complete[section] = {**_defaults(registry.resolve(section, part["name"])), **part}
    return complete


def _defaults(cls: type[Any]) -> dict[str, Any]:
    """What TOML can hold of them."""
    found = {}
    for f in fields(cls):
        value = f.default if f.default_factory is MISSING else f.default_factory()
        if f.init and isinstance(value, _PLAIN_VALUES):
            found[f.name] = list(value) if isinstance(value, tuple) else value
    return found
