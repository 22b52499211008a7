"""What the words of a command mean."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from fedswe.errors import FedsweError
from fedswe.results.files import cannot_write

Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="[CONFIG.toml] [KEY=VALUE]...", help="A TOML file and overrides, e.g. algorithm.k=0"),
]
Out = Annotated[Path | None, typer.Option(help="Directory for the results; default: a new one under runs/")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else")]
Jobs = Annotated[int, typer.Option(help="Processes; 0: one per core, one for a GPU")]
On = Annotated[str, typer.Option(help="Where to run: local, ray (on this machine), or ray:ADDRESS of a cluster")]


def split(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """A configuration file, if one is named, and the KEY=VALUE overrides."""
    files = [word for word in words if "=" not in word]
    if len(files) > 1:
        raise FedsweError(f"one configuration file at a time, not {' and '.join(files)}; overrides are KEY=VALUE")
    return (files[0] if files else None), [word for word in words if "=" in word]


@contextmanager
def directory(out: Path | None, name: str) -> Iterator[Path]:
    """`out`, or the next free directory runs/NNN-name: taken at once, as others may start now, kept if used."""
    if out is not None:
        yield out
        return
    path = _numbered(name)
    try:
        yield path
    finally:
        for empty in (path, path.parent):
            with suppress(OSError):  # it holds something
                empty.rmdir()


def _numbered(name: str) -> Path:
    runs = Path("runs")
    while True:
        taken = [int(found[1]) for p in runs.glob("*") if (found := re.match(r"(\d+)-", p.name))]
        path = runs / f"{max(taken, default=0) + 1:03d}-{name}"
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:
            continue  # another command was faster: the next number
        except OSError as error:
            raise cannot_write(path, error) from None


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
