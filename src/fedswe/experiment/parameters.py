"""Parameters of a part of an experiment."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any


def changed(part: Any) -> dict[str, Any]:
    """The parameters that are not the defaults of the class."""
    found = {}
    for f in fields(part):
        default = f.default if f.default_factory is MISSING else f.default_factory()
        value = getattr(part, f.name)
        if f.init and (default is MISSING or value != default):
            found[f.name] = value
    return found
