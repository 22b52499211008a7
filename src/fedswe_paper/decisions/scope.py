"""Where a claim is looked for: the data sets and dynamics it speaks of, or the scale's stand-in for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fedswe_paper.cell import Dynamics
from fedswe_paper.selection import DATASETS, PERIODIC, STEADY, Selection

Place = tuple[str, Dynamics]


def sets(selection: Selection, papers: Sequence[str]) -> list[str]:
    """The data sets a claim names; where others were asked for, those."""
    there = selection.datasets_of(papers)
    return [dataset for dataset in there if dataset in papers] or list(there)


def datasets(*papers: str) -> Callable[[Selection], list[str]]:
    return lambda selection: sets(selection, papers or DATASETS)


def places(dynamics: Sequence[Dynamics], *papers: str) -> Callable[[Selection], list[Place]]:
    return lambda selection: [(dataset, d) for dataset in sets(selection, papers or DATASETS) for d in dynamics]


STEADY_PLACES = places(STEADY)
SVHN_SINE = places(("sine",), "svhn")
TURNS = places(PERIODIC, "svhn", "cifar10")
SVHN_TURNS = places(PERIODIC, "svhn")
CIFAR10_TURNS = places(PERIODIC, "cifar10")
