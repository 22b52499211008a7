"""What a report says about where runs come from: resolved configurations, and how to run them again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedswe.figures.groups import groups_of
from fedswe.figures.measured import MeasuredRun
from fedswe.report.blocks import Block, Listing, Section, Table, Text

_CONFIGURATIONS, _COMMANDS, _VALUES = 100, 100, 20  # that are shown
_LONGEST = 20_000, 200  # characters of a configuration or a command, and of another value


def origin_sections(runs: Sequence[MeasuredRun]) -> list[Section]:
    return [
        Section("Configuration", _configurations(runs)),
        Section("How to reproduce this", _reproduction(runs)),
    ]


def _configurations(runs: Sequence[MeasuredRun]) -> list[Block]:
    blocks: list[Block] = [Text(["The resolved configuration of the first run of each kind, with all defaults."])]
    groups = groups_of(list({id(run.history): run for run in runs}.values()))
    for group in groups[:_CONFIGURATIONS]:
        first = group.runs[0]
        if text := _text(Path(first.source)):
            blocks.append(Listing(f"{group.name}, seed {first.seed}", text))
    return blocks


def _text(path: Path) -> str:
    file = path / "config.toml"
    if not file.is_file():
        return ""
    return _shortened(file.read_text(encoding="utf-8", errors="replace"), _LONGEST[0])


def _reproduction(runs: Sequence[MeasuredRun]) -> list[Block]:
    noted = [found for run in runs if (found := _noted(Path(run.source)))]
    commands = list(dict.fromkeys(command for found in noted if (command := _command(found))))
    example = shlex.join(["fedswe", "run", f"{runs[0].source}/config.toml"])
    again = f"{'Each run' if len(runs) > 1 else 'The run'} can be run again from its configuration: {example}"
    blocks: list[Block] = []
    if commands:
        blocks.append(
            Listing("Command" if len(commands) == 1 else "Commands", "\n".join(commands[:_COMMANDS]), opened=True)
        )
    if (Path(runs[0].source) / "config.toml").is_file():
        blocks.append(Text([again]))
    rows = [(what, ", ".join(values)) for what, values in _facts(noted).items() if values]
    if rows:
        blocks.append(Table("What the runs were measured with", ["what", "value"], rows, words=2))
    return blocks or [Text(["The runs do not say what they were measured with (run.json is missing)."])]


def _noted(path: Path) -> dict[str, Any]:
    """What run.json says; empty where it is missing or damaged."""
    file = path / "run.json"
    try:
        found = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _command(noted: dict[str, Any]) -> str:
    words = noted.get("command")
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words) or not words:
        return ""
    program = "fedswe" if words[0] == "__main__.py" else words[0]
    return _shortened(shlex.join([program, *words[1:]]), _LONGEST[0])


def _facts(noted: Sequence[dict[str, Any]]) -> dict[str, list[str]]:
    facts: dict[str, list[str]] = {}
    for found in noted:
        packages, machine = found.get("packages"), found.get("machine")
        values = {
            "commit": found.get("commit"),
            "Python": found.get("python"),
            **(packages if isinstance(packages, dict) else {}),
            **(machine if isinstance(machine, dict) else {}),
            "started": str(found.get("started", ""))[:10],
        }
        for name, value in values.items():
            if value not in (None, ""):
                facts.setdefault(str(name), []).append(_shortened(str(value), _LONGEST[1]))
    return {name: list(dict.fromkeys(values))[:_VALUES] for name, values in facts.items()}


def _shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}…"
