"""How large a reproduction is: seconds, minutes, or the paper's own size (scales.toml)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

from pydantic import TypeAdapter

ScaleName = Literal["ci", "small", "full"]

PAPER_SEEDS = (3, 4, 6)  # the released code's examples


@dataclass(frozen=True)
class Scale:
    purpose: str
    stand_in: str  # the data set instead of the paper's; "" = the paper's own
    model: str  # of the stand-in
    clients: int
    steps: int
    batch_size: int
    rounds: int
    motivating_rounds: int  # of figure 3
    period: int  # P of the periodic dynamics
    seeds: tuple[int, ...]
    ks: tuple[float, ...]  # of figures 6, 8, 9, 11, 12
    every: int  # rounds between evaluations; the paper samples Table 7 every 20
    tail: int  # final rounds that a score is averaged over
    tail_every: int
    periodic_tail: int
    target: float  # accuracy of figures 9 and 12
    periodic_rounds: int = 0  # 0 = the paper's, by data set
    warning: str = ""  # why the verdicts on claims mean nothing


SCALES = TypeAdapter(dict[ScaleName, Scale]).validate_python(
    tomllib.loads((files(__package__) / "scales.toml").read_text(encoding="utf-8"))
)
