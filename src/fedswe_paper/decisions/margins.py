"""Differences paired by seed: the same clients, the same data, the same random draws; only the method differs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedswe_paper.cell import PaperCell
from fedswe_paper.decisions.scope import Place
from fedswe_paper.decisions.verdict import Finding, Look
from fedswe_paper.measurements import Measurements, summary
from fedswe_paper.recipes.labels import label
from fedswe_paper.selection import Row, Selection
from fedswe_paper.tables import Measured

BySeed = dict[int, float]

CLOSE = 1.0  # points of accuracy; what the paper itself calls close (Section 7.2, on stationary SVHN)


def margin(ours: BySeed, theirs: BySeed) -> Measured | None:
    """Ours minus theirs, over the seeds both have."""
    return summary([ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())])


def smallest(margins: dict[str, Measured | None]) -> tuple[str, Measured] | None:
    """The rival with the smallest margin; None until all of them have been measured."""
    known = {name: found for name, found in margins.items() if found is not None}
    if len(known) < len(margins):
        return None
    return min(known.items(), key=lambda item: item[1].mean)


def lead(
    measured: Measurements, ours: PaperCell, rivals: Sequence[PaperCell], output: str | None = None
) -> tuple[str, Measured] | None:
    """How far ahead of the closest rival, in points of test accuracy."""
    mine = accuracy(measured, ours, output)
    return smallest({label(rival): margin(mine, accuracy(measured, rival, output)) for rival in rivals})


def accuracy(measured: Measurements, cell: PaperCell, output: str | None = None) -> BySeed:
    return measured.scores(cell, "test_accuracy", output)


def mean_of_methods(measured: Measurements, cells: Sequence[PaperCell]) -> BySeed:
    """Mean test accuracy of all the cells, for the seeds that all of them have."""
    scores = [accuracy(measured, cell) for cell in cells]
    seeds = set.intersection(*(set(each) for each in scores))
    return {seed: float(np.mean([each[seed] for each in scores])) for seed in sorted(seeds)}


def ahead(ours: Row, theirs: Row, by: float = 0.0) -> Look[Place]:
    """One method more accurate than another by more than so many points."""

    def look(selection: Selection, measured: Measurements, place: Place) -> Finding | None:
        a, b = selection.cell(*place, ours), selection.cell(*place, theirs)
        found = margin(accuracy(measured, a), accuracy(measured, b))
        return None if found is None else Finding(found.mean > by, f"{signed(found)}: {label(a)} minus {label(b)}")

    return look


def signed(value: Measured, digits: int = 1) -> str:
    """+1.2 ± 0.3 (3 seeds)."""
    spread = "" if value.std is None else f" ± {value.std:.{digits}f}"
    seeds = "1 seed" if value.seeds == 1 else f"{value.seeds} seeds"
    return f"{round(value.mean, digits) + 0.0:+.{digits}f}{spread} ({seeds})".replace("-", "−")
