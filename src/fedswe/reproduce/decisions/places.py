"""Where a claim is looked for: the data sets and dynamics it speaks of, or the scale's stand-in for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fedswe.reproduce.cell import Dynamics
from fedswe.reproduce.choice import DATASETS, PERIODIC, STEADY, Choice

Place = tuple[str, Dynamics]


def sets(choice: Choice, papers: Sequence[str]) -> list[str]:
    """The data sets a claim names; where others were asked for, those."""
    there = choice.datasets_of(papers)
    return [dataset for dataset in there if dataset in papers] or list(there)


def datasets(*papers: str) -> Callable[[Choice], list[str]]:
    return lambda choice: sets(choice, papers or DATASETS)


def places(dynamics: Sequence[Dynamics], *papers: str) -> Callable[[Choice], list[Place]]:
    return lambda choice: [(dataset, d) for dataset in sets(choice, papers or DATASETS) for d in dynamics]


STEADY_PLACES = places(STEADY)
SVHN_SINE = places(("sine",), "svhn")
TURNS = places(PERIODIC, "svhn", "cifar10")
SVHN_TURNS = places(PERIODIC, "svhn")
CIFAR10_TURNS = places(PERIODIC, "cifar10")
