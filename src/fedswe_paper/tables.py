"""Verdict tables: our number beside the published one, and how far apart they are."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from fedswe.errors import require
from fedswe_paper.latex import escaped

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
    ours: tuple[Measured | None, ...]
    paper: tuple[Measured | None, ...]


@dataclass(frozen=True)
class Difference:
    """Ours minus the paper's, and the spread to compare it with."""

    plain: float
    spread: float | None  # None: not known, or zero
    by: Literal["both", "paper", "ours", ""]  # whose std the spread is

    @property
    def in_spreads(self) -> float | None:
        return None if self.spread is None else self.plain / self.spread


def difference(ours: Measured | None, paper: Measured | None) -> Difference | None:
    """In units of sqrt((s1² + s2²)/2); of the other's std alone where one side has none."""
    if ours is None or paper is None or not (math.isfinite(ours.mean) and math.isfinite(paper.mean)):
        return None
    plain = ours.mean - paper.mean
    if ours.std is not None and paper.std is not None:
        return Difference(plain, math.sqrt((ours.std**2 + paper.std**2) / 2) or None, "both")
    if paper.std is not None:
        return Difference(plain, paper.std or None, "paper")
    if ours.std is not None:
        return Difference(plain, ours.std or None, "ours")
    return Difference(plain, None, "")


@dataclass(frozen=True)
class VerdictTable:
    """The table, written for readers (Markdown), for papers (LaTeX) and for programs (CSV)."""

    title: str
    key_names: tuple[str, ...]
    columns: tuple[str, ...]  # "train", "test"
    lines: list[Line]
    profile: str
    notes: list[str] = field(default_factory=list)
    unit: Unit = "%"

    def __post_init__(self) -> None:
        for line in self.lines:
            require(
                len(line.keys) == len(self.key_names) and len(line.ours) == len(line.paper) == len(self.columns),
                f"{self.title}: the line {line.keys} does not fit the columns {self.key_names + self.columns}",
            )

    def to_markdown(self) -> str:
        values = [f"{column} {part}".strip() for column in self.columns for part in self._parts]
        rule = ["---"] * len(self.key_names) + ["---:"] * len(values)
        rows = [[*self.key_names, *values], rule, *self._cells()]
        table = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
        notes = [f"- {note}" for note in self.all_notes()]
        return "\n".join([f"### {self.title}", "", *table, "", *notes]) + "\n"

    def to_latex(self) -> str:
        """A longtable (it may be longer than a page) with booktabs rules."""
        width = len(self._parts)
        count = len(self.key_names) + width * len(self.columns)
        names = [escaped(name) for name in self.key_names]
        if self._compared:
            starts = range(len(names) + 1, count, width)
            top = [
                " & ".join(
                    [""] * len(names) + [f"\\multicolumn{{3}}{{c}}{{{escaped(c)}}}" for c in self.columns]
                ).strip()
                + " \\\\",
                "".join(f"\\cmidrule(lr){{{start}-{start + width - 1}}}" for start in starts),
                " & ".join(names + [escaped(part) for part in self._parts] * len(self.columns)) + " \\\\",
            ]
        else:
            top = [" & ".join(names + [escaped(column) for column in self.columns]) + " \\\\"]
        top = ["\\toprule", *top, "\\midrule"]
        body = [" & ".join(escaped(cell) for cell in row) + " \\\\" for row in self._cells()]
        notes = " ".join(_sentence(note) for note in self.all_notes())
        return "\n".join(
            [
                "% \\usepackage{booktabs,longtable}",
                "\\begingroup\\footnotesize",
                f"\\begin{{longtable}}{{{'l' * len(names)}{'r' * (count - len(names))}}}",
                f"\\caption{{{escaped(self.title)}}} \\\\",
                *top,
                "\\endfirsthead",
                *top,
                "\\endhead",
                "\\bottomrule",
                "\\endfoot",
                "\\bottomrule",
                f"\\multicolumn{{{count}}}{{p{{0.9\\linewidth}}}}{{\\raggedright {escaped(notes)}}} \\\\",
                "\\endlastfoot",
                *body,
                "\\end{longtable}",
                "\\endgroup",
            ]
        ) + "\n"  # fmt: skip

    def to_csv(self) -> str:
        """One row per line and column; empty is not known, inf is never reached, nan is a run that diverged."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(
            [*self.key_names, "column", "unit", "profile", "ours_mean", "ours_std", "ours_seeds", "paper_mean",
             "paper_std", "paper_seeds", "difference", "pooled_std", "pooled_over", "difference_in_pooled_std"]
        )  # fmt: skip
        for line, column, ours, paper in self._pairs():
            apart = difference(ours, paper)
            judged = ["", "", "", ""]
            if apart is not None:
                judged = [_exact(apart.plain), _exact(apart.spread), apart.by, _exact(apart.in_spreads)]
            writer.writerow([*line.keys, column, self.unit, self.profile, *_parts(ours), *_parts(paper), *judged])
        return text.getvalue()

    def all_notes(self) -> list[str]:
        """How to read the table, and the notes of its recipe."""
        pairs = [(ours, paper) for _, _, ours, paper in self._pairs()]
        known = [apart for pair in pairs if (apart := difference(*pair)) is not None]
        notes = [f"profile {self.profile}; {self.unit}; mean ± std (seeds)"]
        if self._compared:
            notes.append("Δ/s: ours minus the paper's in units of the pooled std, s = sqrt((s1² + s2²)/2)")
        else:
            notes.append("the paper prints no numbers here")
        if any(apart.by == "paper" for apart in known):
            notes.append("where we have one seed, s is the paper's std alone")
        if any(apart.by == "ours" for apart in known):
            notes.append("where the paper gives no std, s is ours alone")
        if any(apart.spread is None for apart in known):
            notes.append(f"where there is no std, or it is zero, the difference itself is given, in {self.unit}")
        if any(ours is None for ours, _ in pairs):
            notes.append(f"{_NOTHING} {'under ours: ' if self._compared else 'is '}not measured")
        if self._compared and any(paper is None for _, paper in pairs):
            notes.append(f"{_NOTHING} under paper: the paper has no such number")
        if any(ours is not None and math.isnan(ours.mean) for ours, _ in pairs):
            notes.append("diverged: a run ended in NaN, and there is no mean")
        if any(m is not None and math.isinf(m.mean) for pair in pairs for m in pair):
            notes.append("never: not reached within the rounds of the run")
        return notes + self.notes

    def _pairs(self) -> Iterator[tuple[Line, str, Measured | None, Measured | None]]:
        for line in self.lines:
            for column, ours, paper in zip(self.columns, line.ours, line.paper, strict=True):
                yield line, column, ours, paper

    @property
    def _compared(self) -> bool:
        """Whether the paper has any of these numbers; if not, its columns are left out."""
        return any(paper is not None for line in self.lines for paper in line.paper)

    @property
    def _parts(self) -> tuple[str, ...]:
        return ("ours", "paper", "Δ/s") if self._compared else ("",)

    def _cells(self) -> Iterator[list[str]]:
        for line in self.lines:
            cells = list(line.keys)
            for ours, paper in zip(line.ours, line.paper, strict=True):
                cells.append(self._shown(ours))
                if self._compared:
                    cells += [self._shown(paper), self._apart(difference(ours, paper))]
            yield cells

    def _shown(self, value: Measured | None) -> str:
        if value is None:
            return _NOTHING
        if math.isinf(value.mean):
            return f"never ({value.seeds})"
        if math.isnan(value.mean):
            return f"diverged ({value.seeds})"
        std = "" if value.std is None else f" ± {value.std:.{self._digits}f}"
        return f"{value.mean:.{self._digits}f}{std} ({value.seeds})"

    def _apart(self, apart: Difference | None) -> str:
        if apart is None:
            return _NOTHING
        if apart.in_spreads is None:
            return f"{_signed(apart.plain, self._digits)} {self.unit}"
        return _signed(apart.in_spreads, 1)

    @property
    def _digits(self) -> int:
        return _DIGITS[self.unit]


def _parts(value: Measured | None) -> list[str]:
    return ["", "", ""] if value is None else [_exact(value.mean), _exact(value.std), str(value.seeds)]


def _exact(value: float | None) -> str:
    return "" if value is None else repr(float(value))


def _signed(value: float, digits: int) -> str:
    return f"{round(value, digits) + 0.0:+.{digits}f}".replace("-", "−")  # + 0.0: no negative zero


def _sentence(note: str) -> str:
    return note[:1].upper() + note[1:].rstrip(".") + "."
