"""How much of each table and figure of the paper has been measured, and the command that runs what is missing."""

from __future__ import annotations

from collections import Counter

import pandas as pd

from fedswe_paper.cell import PaperCell
from fedswe_paper.measurements import Measurements
from fedswe_paper.publish import Page, Recipe
from fedswe_paper.recipes import RECIPES
from fedswe_paper.selection import Selection

_NUMBERS = [*(f"Figure {n}" for n in range(1, 17)), *(f"Table {n}" for n in range(1, 10))]  # of the paper
_NOT_MEASURED = {
    "Table 1": "assumptions of other analyses",
    **dict.fromkeys(("Table 3", "Table 4"), "notation"),
    **dict.fromkeys(("Table 5", "Table 6"), "settings of the runs"),
}
_HEAD = (
    "in the paper", "recipe", "data", "dynamics", "needed", "measured", "shorter", "of them NaN", "seeds", "rounds",
    "missing",
)  # fmt: skip
_EMPTY = ("—", "—", 0, 0, 0, 0, "—", "—")


def coverage(selection: Selection, measured: Measurements) -> pd.DataFrame:
    """A row per recipe, data set and dynamics: the figures and tables in order, then what else has recipes."""
    rows: list[tuple[object, ...]] = []
    for number in dict.fromkeys([*_NUMBERS, *(recipe.number for recipe in RECIPES.values())]):
        recipes = [recipe for recipe in RECIPES.values() if recipe.number == number]
        for recipe in recipes:
            places: dict[tuple[str, str], list[PaperCell]] = {}
            for line in dict.fromkeys(recipe.lines(selection)):
                places.setdefault((line.dataset, line.dynamics), []).append(line)
            rows += [_row(selection, number, recipe.name, lines, measured) for lines in places.values()]
            if not places:
                rows.append((number, recipe.name, *_EMPTY, "nothing: needs no runs"))
        if not recipes:
            rows.append((number, "—", *_EMPTY, f"nothing: {_NOT_MEASURED[number]}"))
    return pd.DataFrame(rows, columns=list(_HEAD))


def _row(
    selection: Selection, number: str, recipe: str, lines: list[PaperCell], measured: Measurements
) -> tuple[object, ...]:
    """The lines of one data set under one dynamics."""
    wanted, place, found = selection.scale.seeds, lines[0], []
    for line in lines:
        longest = {run.cell.seed: (rounds, run) for rounds, runs in measured.lengths(line).items() for run in runs}
        found += [(seed, *longest[seed], line.full_rounds) for seed in wanted if seed in longest]
    needed, whole = len(lines) * len(wanted), sum(rounds >= full for _, rounds, _, full in found)
    counts = Counter(seed for seed, *_ in found)
    every, partly = (
        _listed({seed for seed, count in counts.items() if (count == len(lines)) == everywhere})
        for everywhere in (True, False)
    )
    command = ["fedswe reproduce", recipe, "--scale", selection.scale_name]  # finished runs are not repeated
    command += ["--profile", selection.profile] if selection.profile != "released" else []
    command += ["--dataset", place.dataset, "--dynamics", place.dynamics]
    command += ["--device cuda"] if selection.scale_name == "full" else []
    return (
        number, recipe, place.dataset, place.dynamics, needed, whole, len(found) - whole,
        sum(run.diverged for _, _, run, _ in found),
        " ".join(filter(None, [every, partly and f"({partly} in part)"])) or "—",
        f"{_listed({rounds for _, rounds, _, _ in found}) or '—'} of {_listed({line.full_rounds for line in lines})}",
        "nothing" if whole == needed else " ".join(command),
    )  # fmt: skip


def _whole_seeds(line: PaperCell, measured: Measurements) -> set[int]:
    return {run.cell.seed for n, runs in measured.lengths(line).items() if n >= line.full_rounds for run in runs}


def _missing(selection: Selection, measured: Measurements) -> str:
    recipes = [recipe for recipe in RECIPES.values() if recipe.number in _NUMBERS]
    lines = {line.name: line for recipe in recipes for line in recipe.lines(selection)}.values()
    rounds = [line.full_rounds for line in lines for _ in set(selection.scale.seeds) - _whole_seeds(line, measured)]
    once = "a run that several of them need is counted once"
    return f"The paper's tables and figures miss {len(rounds)} runs of {sum(rounds):,} rounds in all; {once}."


def _listed(values: set[int]) -> str:
    return ", ".join(map(str, sorted(values)))


def report(selection: Selection, measured: Measurements) -> Page:
    """A page for readers, coverage.csv for programs."""
    found = coverage(selection, measured)
    shown = found.assign(missing=found["missing"].str.replace(r"^(fedswe .*)$", r"`\1`", regex=True))
    page = f"""# What has been measured

Scale {selection.scale_name} ({selection.scale.purpose}), profile {selection.profile}.
A run is one row of a table, or one curve, with one seed; recipes share runs. Measured: with all its rounds;
shorter: with fewer only. The command runs what is missing and nothing twice; it needs the files of the data
set (`fedswe data list`).

| {" | ".join(_HEAD)} |
|---|---|---|---|---:|---:|---:|---:|---|---|---|
"""
    page += "".join(f"| {' | '.join(map(str, row))} |\n" for row in shown.itertuples(index=False))
    missing = _missing(selection, measured)
    page += f"\n{missing}\n"
    needed = found[found["needed"] > 0].itertuples(index=False)
    rows = [(*row[:4], f"{row[5]} of {row[4]}", str(row[6])) for row in needed]
    console = ("runs measured", ("in the paper", "recipe", "data", "dynamics", "runs", "shorter"), rows)
    sheets = {"coverage": found.rename(columns=lambda n: n.replace(" ", "_"))}
    return Page(text=page, sheets=sheets, overview=console, said=missing)


COVERAGE = Recipe(
    "coverage",
    "text",
    "how much of each table and figure has been measured, and what runs the rest",
    lambda selection: [],
    report,
)
