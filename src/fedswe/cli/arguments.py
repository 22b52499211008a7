"""Arguments and options that several commands share, and how their text is read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Literal

import typer

from fedswe.core.local import Precision
from fedswe.errors import FedsweError, require
from fedswe.results.files import cannot_write

Settings = Annotated[
    list[str] | None,
    typer.Argument(metavar="[CONFIG.toml] [KEY=VALUE]...", help="A TOML file and overrides, e.g. algorithm.k=0"),
]
Out = Annotated[Path | None, typer.Option(help="Directory for the results; default: a new one under runs/")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else")]
Device = Annotated[str, typer.Option(help="cpu, cuda or cuda:NUMBER")]
PrecisionName = Annotated[Precision | None, typer.Option(help="Default: fp32 on a CPU, bf16 on a GPU")]
Jobs = Annotated[int, typer.Option(help="Processes; 0: one per core, one for a GPU")]
On = Annotated[Literal["local", "ray", "dask"], typer.Option(help="Where to run; clusters: docs/running.md")]
Track = Annotated[str, typer.Option(help="Trackers of every run, e.g. tensorboard,mlflow; see docs/results.md")]

_LONGEST_RANGE = 100_000


def precision_named(name: Precision | None, device: str) -> Precision:
    """The precision asked for, or the default of the device."""
    return name or ("bf16" if device.startswith("cuda") else "fp32")


def comma_separated(text: str) -> tuple[str, ...]:
    """Comma-separated words."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def numbers(text: str, option: str) -> list[float]:
    """Comma-separated numbers."""
    try:
        return [float(word) for word in comma_separated(text)]
    except ValueError:
        raise FedsweError(f"{option} must be numbers separated by commas, not {text!r}") from None


def whole_numbers(text: str, option: str) -> list[int]:
    """Comma-separated whole numbers and ranges: `3,4,6` or `1-5`."""
    found: list[int] = []
    for word in comma_separated(text):
        ends = re.fullmatch(r"(\d+)\s*-\s*(\d+)", word)
        try:
            first, last = int(ends[1] if ends else word), int(ends[2] if ends else word)
        except ValueError:
            raise FedsweError(f"{option} must be whole numbers or ranges such as 1-5, not {text!r}") from None
        fits = 0 <= last - first < _LONGEST_RANGE
        require(fits, f"{option}: the range {word} must go up, over at most {_LONGEST_RANGE} numbers")
        found += range(first, last + 1)
    return found


def split(settings: Sequence[str]) -> tuple[str | None, list[str]]:
    """A configuration file, if one is named, and the KEY=VALUE overrides."""
    files = [word for word in settings if "=" not in word]
    if len(files) > 1:
        raise FedsweError(f"one configuration file at a time, not {' and '.join(files)}; overrides are KEY=VALUE")
    return (files[0] if files else None), [word for word in settings if "=" in word]


@contextmanager
def directory(out: Path | None, name: str) -> Iterator[Path]:
    """`out`, or a new directory runs/NNN-name, which is removed again if it stays empty.

    It is created at once, so that commands that start at the same time get different numbers.
    """
    if out is not None:
        yield out
        return
    made = False
    while not made:  # another process may create it first: take the next number
        taken = [int(found[1]) for p in Path("runs").glob("*") if (found := re.match(r"(\d+)-", p.name))]
        path = Path("runs", f"{max(taken, default=0) + 1:03d}-{name}")
        try:
            with suppress(FileExistsError):
                path.mkdir(parents=True)
                made = True
        except OSError as error:
            raise cannot_write(path, error) from None
    try:
        yield path
    finally:
        for empty in (path, path.parent):
            with suppress(OSError):  # it is not empty
                empty.rmdir()
