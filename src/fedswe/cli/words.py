"""What the words of a command mean."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedswe.errors import FedsweError


def split(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """A configuration file, if one is named, and the KEY=VALUE overrides."""
    files = [word for word in words if "=" not in word]
    if len(files) > 1:
        raise FedsweError(f"one configuration file at a time, not {' and '.join(files)}; overrides are KEY=VALUE")
    return (files[0] if files else None), [word for word in words if "=" in word]


def new_directory(name: str) -> Path:
    """The next free directory runs/NNN-name."""
    taken = [int(p.name[:3]) for p in Path("runs").glob("[0-9][0-9][0-9]-*")]
    return Path("runs") / f"{max(taken, default=0) + 1:03d}-{name}"


def numbers(text: str, option: str) -> list[float]:
    """Comma-separated numbers."""
    try:
        return [float(word) for word in text.split(",") if word]
    except ValueError:
        raise FedsweError(f"{option} must be numbers separated by commas, not {text!r}") from None


def whole_numbers(text: str, option: str) -> list[int]:
    """Comma-separated whole numbers."""
    try:
        return [int(word) for word in text.split(",") if word]
    except ValueError:
        raise FedsweError(f"{option} must be whole numbers separated by commas, not {text!r}") from None
