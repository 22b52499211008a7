"""How much of each table and figure of the paper has been measured, and the command that runs what is missing."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from fedswe.results.files import write_whole
from fedswe_paper.cell import PaperCell
from fedswe_paper.measurements import Measurements
from fedswe_paper.publish import folder_of
from fedswe_paper.recipe import Recipe
from fedswe_paper.recipes import RECIPES
from fedswe_paper.selection import Selection

_FIGURES, _TABLES = 16, 9  # of the paper
_NOT_MEASURED = {
    "Table 1": "assumptions of other analyses",
    "Table 3": "notation",
    "Table 4": "notation",
    "Table 5": "settings of the runs",
    "Table 6": "settings of the runs",
}
_HEAD = (
    "in the paper",
    "recipe",
    "data",
    "dynamics",
    "needed",
    "measured",
    "shorter",
    "of them NaN",
    "seeds",
    "rounds",
    "missing",
)


@dataclass(frozen=True)
class Coverage:
    """The runs of one recipe on one data set under one dynamics."""

    recipe: Recipe
    dataset: str
    dynamics: str
    needed: int
    measured: int  # with the paper's rounds (at this scale)
    shorter: int  # measured with fewer rounds only
    diverged: int  # of both
    seeds: tuple[int, ...]  # that every line has
    partly: tuple[int, ...]  # that some lines have
    rounds: tuple[int, ...]  # of the runs there are
    paper_rounds: tuple[int, ...]

    @property
    def complete(self) -> bool:
        return self.measured == self.needed

    def command(self, selection: Selection) -> str:
        """Runs what is missing: finished runs are not repeated."""
        words = ["fedswe reproduce", self.recipe.name, "--scale", selection.scale_name]
        words += ["--profile", selection.profile] if selection.profile != "released" else []
        words += ["--dataset", self.dataset, "--dynamics", self.dynamics]
        return " ".join(words + (["--device cuda"] if selection.scale_name == "full" else []))


def coverage(selection: Selection, measured: Measurements) -> list[Coverage]:
    """Every recipe that has runs, by data set and dynamics."""
    found = []
    for recipe in RECIPES.values():
        lines = list(dict.fromkeys(recipe.lines(selection)))
        for place in dict.fromkeys((line.dataset, line.dynamics) for line in lines):
            of = [line for line in lines if (line.dataset, line.dynamics) == place]
            found.append(_count(recipe, *place, of, selection.scale.seeds, measured))
    return found


def _count(
    recipe: Recipe,
    dataset: str,
    dynamics: str,
    lines: list[PaperCell],
    wanted: tuple[int, ...],
    measured: Measurements,
) -> Coverage:
    whole = shorter = diverged = 0
    seeds: Counter[int] = Counter()
    lengths, full = set(), set()
    for line in lines:
        paper = replace(line, rounds=0).experiment().rounds
        full.add(paper)
        longest = {run.cell.seed: (rounds, run) for rounds, runs in measured.lengths(line).items() for run in runs}
        for seed in wanted:
            if seed not in longest:
                continue
            rounds, run = longest[seed]
            seeds[seed] += 1
            lengths.add(rounds)
            whole += rounds >= paper
            shorter += rounds < paper
            diverged += run.diverged
    return Coverage(
        recipe, dataset, dynamics, len(lines) * len(wanted), whole, shorter, diverged,
        tuple(seed for seed in sorted(seeds) if seeds[seed] == len(lines)),
        tuple(seed for seed in sorted(seeds) if seeds[seed] < len(lines)),
        tuple(sorted(lengths)), tuple(sorted(full)),
    )  # fmt: skip


def _seeds(part: Coverage) -> str:
    """3 (4, 6 in part)."""
    whole, partly = (", ".join(map(str, seeds)) for seeds in (part.seeds, part.partly))
    return " ".join(filter(None, [whole, f"({partly} in part)" if partly else ""])) or "—"


def publish_coverage(selection: Selection, measured: Measurements, out: Path) -> Path:
    """coverage.md for readers, coverage.csv for programs."""
    folder = folder_of(selection, out)
    rows = list(_rows(selection, coverage(selection, measured)))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(name.replace(" ", "_") for name in _HEAD)
    writer.writerows(rows)
    write_whole(folder / "coverage.csv", text.getvalue())
    write_whole(folder / "coverage.md", "\n".join(_page(selection, rows)) + "\n")
    return folder / "coverage.md"


def _page(selection: Selection, rows: list[tuple[str, ...]]) -> Iterator[str]:
    yield "# What has been measured"
    yield ""
    yield f"Scale {selection.scale_name} ({selection.scale.purpose}), profile {selection.profile}."
    yield "A run is one row of a table, or one curve, with one seed; recipes share runs. Measured: with all its rounds;"
    yield "shorter: with fewer only. The command runs what is missing and nothing twice; it needs the files of the data"
    yield "set (`fedswe data list`)."
    yield ""
    yield f"| {' | '.join(_HEAD)} |"
    yield "|---|---|---|---|---:|---:|---:|---:|---|---|---|"
    for *cells, missing in rows:
        shown = f"`{missing}`" if missing.startswith("fedswe ") else missing
        yield f"| {' | '.join(cells)} | {shown} |"


def _rows(selection: Selection, found: list[Coverage]) -> Iterator[tuple[str, ...]]:
    """Its figures and tables in order; then what is in its text, or not in it at all."""
    numbers = [f"Figure {n}" for n in range(1, _FIGURES + 1)] + [f"Table {n}" for n in range(1, _TABLES + 1)]
    rest = [recipe.number for recipe in RECIPES.values() if recipe.number not in numbers]
    for number in dict.fromkeys([*numbers, *rest]):
        recipes = [recipe for recipe in RECIPES.values() if recipe.number == number]
        for recipe in recipes:
            parts = [part for part in found if part.recipe is recipe]
            yield from (_row(selection, part) for part in parts)
            if not parts:
                yield number, recipe.name, "—", "—", "0", "0", "0", "0", "—", "—", "nothing: needs no runs"
        if not recipes:
            yield number, "—", "—", "—", "0", "0", "0", "0", "—", "—", f"nothing: {_NOT_MEASURED[number]}"


def _row(selection: Selection, part: Coverage) -> tuple[str, ...]:
    counts = (part.needed, part.measured, part.shorter, part.diverged)
    there = ", ".join(map(str, part.rounds)) or "—"
    return (
        part.recipe.number,
        part.recipe.name,
        part.dataset,
        part.dynamics,
        *map(str, counts),
        _seeds(part),
        f"{there} of {', '.join(map(str, part.paper_rounds))}",
        "nothing" if part.complete else part.command(selection),
    )
