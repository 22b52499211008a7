"""Verdict tables: our number beside the published one, and how far apart they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Literal, NamedTuple

import pandas as pd

_NOTHING = "—"
Unit = Literal["%", "rounds", "error"]
_DIGITS: dict[Unit, int] = {"%": 1, "rounds": 0, "error": 2}


@dataclass(frozen=True)
class Measured:
    """A mean over seeds.

    An infinite mean: the target was not reached in the rounds of the run. NaN: a run diverged, and there is no mean.
    """

    mean: float
    std: float | None  # over seeds; None for one seed, or where it is not known
    seeds: int


@dataclass(frozen=True)
class Line:
    """One row of the table: its keys, and our numbers and the paper's, one per column."""

    keys: tuple[str, ...]
    ours: Sequence[Measured | None]
    paper: Sequence[Measured | None] = ()  # none: the paper prints no such row

    @property
    def pairs(self) -> list[tuple[Measured | None, Measured | None]]:
        return list(zip_longest(self.ours, self.paper))


class Difference(NamedTuple):
    """Ours minus the paper's, and the spread to compare it with."""

    plain: float
    spread: float | None  # None: not known, or zero
    by: str  # whose std the spread is: both, paper, ours
    in_spreads: float | None


def difference(ours: Measured | None, paper: Measured | None) -> Difference | None:
    """In units of sqrt((s1² + s2²)/2); of the other's std alone where one side has none."""
    if ours is None or paper is None or not (math.isfinite(ours.mean) and math.isfinite(paper.mean)):
        return None
    stds = {whose: side.std for whose, side in (("ours", ours), ("paper", paper)) if side.std is not None}
    spread = math.sqrt(sum(std**2 for std in stds.values()) / len(stds)) or None if stds else None
    apart = ours.mean - paper.mean
    return Difference(apart, spread, "both" if len(stds) == 2 else "".join(stds), apart / spread if spread else None)


@dataclass(frozen=True)
class VerdictTable:
    """The table, written for readers (Markdown) and for programs (CSV)."""

    title: str
    key_names: tuple[str, ...]
    columns: tuple[str, ...]  # "train", "test"
    lines: list[Line]
    profile: str
    notes: list[str] = field(default_factory=list)
    unit: Unit = "%"

    def to_markdown(self) -> str:
        parts = (" ours", " paper", " Δ/s") if self._compared else ("",)
        values = [f"{column}{part}" for column in self.columns for part in parts]
        rows = [[*self.key_names, *values], ["---"] * len(self.key_names) + ["---:"] * len(values)]
        for line in self.lines:
            cells = list(line.keys)
            for ours, paper in line.pairs:
                shown = [self._shown(ours), self._shown(paper), self._apart(difference(ours, paper))]
                cells += shown if self._compared else shown[:1]
            rows.append(cells)
        table = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
        notes = [f"- {note}" for note in self.all_notes()]
        return "\n".join([f"### {self.title}", "", *table, "", *notes]) + "\n"

    def rows(self) -> pd.DataFrame:
        """One row per line and column; empty is not known, inf is never reached, nan is a run that diverged."""
        rows = []
        for line in self.lines:
            for column, (ours, paper) in zip(self.columns, line.pairs, strict=True):
                known = [(m.mean, m.std, m.seeds) if m else (None,) * 3 for m in (ours, paper)]
                values = [*known[0], *known[1], *(difference(ours, paper) or (None,) * 4)]
                texts = ("" if value is None else str(value) for value in values)
                rows.append([*line.keys, column, self.unit, self.profile, *texts])
        head = [
            *self.key_names, "column", "unit", "profile", "ours_mean", "ours_std", "ours_seeds", "paper_mean",
            "paper_std", "paper_seeds", "difference", "pooled_std", "pooled_over", "difference_in_pooled_std",
        ]  # fmt: skip
        return pd.DataFrame(rows, columns=head)

    def all_notes(self) -> list[str]:
        """How to read the table, and the notes of its recipe."""
        pairs, compared = [pair for line in self.lines for pair in line.pairs], self._compared
        apart = [found for pair in pairs if (found := difference(*pair))]
        means = [m.mean for pair in pairs for m in pair if m]
        notes = {
            f"profile {self.profile}; {self.unit}; mean ± std (seeds)": True,
            "Δ/s: ours minus the paper's in units of the pooled std, s = sqrt((s1² + s2²)/2)": compared,
            "the paper prints no numbers here": not compared,
            "where we have one seed, s is the paper's std alone": any(d.by == "paper" for d in apart),
            "where the paper gives no std, s is ours alone": any(d.by == "ours" for d in apart),
            f"where there is no std, or it is zero, the difference itself is given, in {self.unit}": any(
                d.spread is None for d in apart
            ),
            f"{_NOTHING} {'under ours: ' if compared else 'is '}not measured": any(not ours for ours, _ in pairs),
            f"{_NOTHING} under paper: the paper has no such number": compared
            and any(not theirs for _, theirs in pairs),
            "diverged: a run ended in NaN, and there is no mean": any(map(math.isnan, means)),
            "never: not reached within the rounds of the run": any(map(math.isinf, means)),
        }
        return [note for note, true in notes.items() if true] + self.notes

    @property
    def _compared(self) -> bool:
        """Whether the paper has any of these numbers; if not, its columns are left out."""
        return any(paper is not None for line in self.lines for paper in line.paper)

    def _shown(self, value: Measured | None) -> str:
        if value is None:
            return _NOTHING
        if not math.isfinite(value.mean):
            return f"{'never' if math.isinf(value.mean) else 'diverged'} ({value.seeds})"
        digits = _DIGITS[self.unit]
        std = "" if value.std is None else f" ± {value.std:.{digits}f}"
        return f"{value.mean:.{digits}f}{std} ({value.seeds})"

    def _apart(self, apart: Difference | None) -> str:
        if apart is None:
            return _NOTHING
        if apart.in_spreads is None:
            return f"{_signed(apart.plain, _DIGITS[self.unit])} {self.unit}"
        return _signed(apart.in_spreads, 1)


def _signed(value: float, digits: int) -> str:
    return f"{round(value, digits) + 0.0:+.{digits}f}".replace("-", "−")  # + 0.0: no negative zero
