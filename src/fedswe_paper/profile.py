"""Profiles and readings (profiles.toml).

A profile is one of two readings of the paper's experiments: its text, or the code its authors released. A reading
answers otherwise than by default what the paper leaves open about a single method.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

from fedswe.errors import require

Profile = Literal["paper", "released"]
_DATA = tomllib.loads((files(__package__) / "profiles.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Deviation:
    """One thing the two profiles disagree about, as keys of the configuration."""

    what: str
    paper: dict[str, Any]
    released: dict[str, Any]
    why: str
    of: tuple[str, ...] = ()  # the algorithms it concerns; empty: all
    images: bool = False  # concerns only the paper's networks on images


@dataclass(frozen=True)
class Reading:
    of: tuple[str, ...]  # the algorithms
    label: str  # what tables put after the method's name
    settings: dict[str, Any]  # keys of the configuration; they come after the profile's
    why: str


# eta_0 of Table 6 (all data sets; eta_g = 1). FedVARP's is in the conference paper only; gFedAvg's is in neither, and
# its authors divide the rate by the amplification.
RATES: dict[str, float] = _DATA["rates"]
DEVIATIONS = tuple(Deviation(**{**table, "of": tuple(table.get("of", ()))}) for table in _DATA["deviation"])
TRIED: list[tuple[str, float, str, list[float]]] = _DATA["tried"]  # by the recipe "readings"
EVERYWHERE: list[str] = _DATA["everywhere"]
READINGS = {name: Reading(**{**table, "of": tuple(table["of"])}) for name, table in _DATA["reading"].items()}


def settings(profile: Profile, algorithm: str, images: bool, reading: str = "") -> dict[str, Any]:
    """The keys that a profile, and then a reading, set for one algorithm."""
    chosen: dict[str, Any] = {}
    for deviation in DEVIATIONS:
        if (not deviation.of or algorithm in deviation.of) and (images or not deviation.images):
            chosen |= getattr(deviation, profile)
    return chosen | (READINGS[reading].settings if reading else {})


def check_reading(reading: str, algorithm: str) -> None:
    require(not reading or reading in READINGS, f"unknown reading {reading!r}: choose from {', '.join(READINGS)}")
    if reading:
        of = READINGS[reading].of
        require(algorithm in of, f"{reading} is a reading of {' and '.join(of)}, not of {algorithm}")
