"""Runs that differ in their seed only form a group; its name says in what it differs from the other groups."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedswe.errors import warn
from fedswe.figures.measured import MeasuredRun

_NOT_COMPARED = (
    "seed",
    "threads",
    "record",
    "evaluate",
    "track",
)  # they do not change what is learned, but by rounding
_LONGEST = 16  # characters of a value in a name


@dataclass(frozen=True)
class Group:
    name: str
    runs: list[MeasuredRun]  # one per seed


def groups_of(runs: Sequence[MeasuredRun]) -> list[Group]:
    """In the order of their first runs."""
    flat = [_flat(run.config) for run in runs]
    found: dict[str, list[int]] = {}
    for i, values in enumerate(flat):
        compared = {key: _comparable(value) for key, value in values.items()}
        found.setdefault(json.dumps(compared, sort_keys=True, default=str), []).append(i)
    first = [members[0] for members in found.values()]
    names = [runs[i].label for i in first]
    if not all(names) or len(set(names)) < len(names):  # several comparisons, or runs outside of one
        names = [_name(flat[i], flat) for i in first]
    groups = []
    for i, members in enumerate(found.values()):
        alike = names[: i + 1].count(names[i])
        name = names[i] if alike == 1 else f"{names[i]} ({alike})"
        groups.append(Group(name, _one_per_seed(name, [runs[i] for i in members])))
    return groups


def _one_per_seed(name: str, runs: Sequence[MeasuredRun]) -> list[MeasuredRun]:
    kept: dict[int, MeasuredRun] = {}
    for run in runs:
        if kept.setdefault(run.seed, run) is not run:
            warn(f"two runs of {name} have seed {run.seed}: {run.source} is left out")
    return [kept[seed] for seed in sorted(kept)]


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    """section.key of every value that is compared."""
    values: dict[str, Any] = {}
    for name, part in config.items():
        if name not in _NOT_COMPARED:
            values |= (
                {f"{name}.{key}": value for key, value in part.items()} if isinstance(part, dict) else {name: part}
            )
    return values


def _comparable(value: Any) -> Any:
    """1 and 1.0 are the same value."""
    return float(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53 else value


def _name(own: dict[str, Any], all_: Sequence[dict[str, Any]]) -> str:
    """The algorithm, and each value in which runs of the same algorithm (availability, task) differ."""
    parts = [own["algorithm.name"].rpartition(":")[2]]
    for key, value in own.items():
        section = key.rpartition(".")[0]
        owner = f"{section}.name" if section in ("availability", "clock", "task") else "algorithm.name"
        if key == "algorithm.name":
            continue
        if key == owner:  # another task or availability is named without its parameters
            if any(other.get(key) != value for other in all_):
                parts.append(str(value).rpartition(":")[2])
        elif any(other.get(owner) == own.get(owner) and other.get(key) != value for other in all_):
            parts.append(f"{key.removeprefix('algorithm.')}={_short(value)}")
    return " ".join(parts)


def _short(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
