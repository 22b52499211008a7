"""The part of a recipe that a user asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from fedswe.errors import require
from fedswe_paper.cell import Dynamics, PaperCell
from fedswe_paper.profile import Profile
from fedswe_paper.scale import SCALES, Scale, ScaleName

DATASETS = ("svhn", "cifar10", "cinic10")
STAND_INS = ("digits", "fashion_mnist")
STEADY: tuple[Dynamics, ...] = ("stationary", "staircase", "sine")
PERIODIC: tuple[Dynamics, ...] = ("periodic-static", "periodic-staircase")
Row = tuple[str, float]  # an algorithm and FedSWE's k

# The rows of Table 2; the last three use heavy memory or known statistics.
ROWS: tuple[Row, ...] = (
    ("fedswe", 0.0),
    ("fedswe", 100.0),
    ("fedavg", 0.0),
    ("fedavg_all", 0.0),
    ("gfedavg", 0.0),
    ("fedau", 0.0),
    ("f3ast", 0.0),
    ("fedavg_known", 0.0),
    ("mifa", 0.0),
    ("fedvarp", 0.0),
)
AIDED = ("fedavg_known", "mifa", "fedvarp")
# Tables 7, 8 and 9 leave out k = 100, gFedAvg and FedVARP.
CONFERENCE = tuple(row for row in ROWS if row != ("fedswe", 100.0) and row[0] not in ("gfedavg", "fedvarp"))


@dataclass(frozen=True)
class Selection:
    scale_name: ScaleName
    profile: Profile
    datasets: tuple[str, ...] = ()  # empty: those of the recipe, or the scale's stand-in
    dynamics: tuple[str, ...] = ()
    algorithms: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()  # empty: those of the scale
    rounds: int = 0  # 0: those of the scale

    def __post_init__(self) -> None:
        for option, words, known in (
            ("dataset", self.datasets, (*DATASETS, *STAND_INS)),
            ("dynamics", self.dynamics, (*STEADY, *PERIODIC)),
            ("algorithms", self.algorithms, dict.fromkeys(name for name, _ in ROWS)),
        ):
            for word in words:
                require(word in known, f"unknown --{option} {word!r}: choose from {', '.join(known)}")
        require(self.rounds >= 0, f"--rounds must be 0 (those of the scale) or positive, not {self.rounds}")

    @property
    def scale(self) -> Scale:
        return SCALES[self.scale_name]

    def datasets_of(self, papers: Sequence[str]) -> tuple[str, ...]:
        """Those of the recipe's that are asked for; where the scale has a stand-in, that, or what is asked for."""
        if self.scale.stand_in:
            return self.datasets or (self.scale.stand_in,)
        return tuple(dataset for dataset in papers if not self.datasets or dataset in self.datasets)

    def wants(self, cell: PaperCell) -> bool:
        """Whether a cell of a recipe is of the dynamics and algorithms asked for."""
        return (not self.dynamics or cell.dynamics in self.dynamics) and (
            not self.algorithms or cell.algorithm in self.algorithms
        )

    def cell(self, dataset: str, dynamics: Dynamics, row: Row, /, **variation: Any) -> PaperCell:
        """A line of cells: one cell with seed 0, with these coordinates of PaperCell."""
        coordinates = {"seed": 0, "k": row[1], "rounds": self.rounds, **variation}
        cell = PaperCell(self.scale_name, self.profile, dataset, dynamics, row[0], **coordinates)
        # As many rounds as it has anyway: the same run under the same name.
        return replace(cell, rounds=0) if cell.rounds and cell.rounds == cell.full_rounds else cell

    def described(self, dataset: str, dynamics: Dynamics, text: str, /, **variation: Any) -> PaperCell:
        """The line of a method in words: "k100" is FedSWE with k = 100, and others have their names: "mifa alpha=1"."""
        name, *words = text.split()
        row = ("fedswe", float(name[1:])) if name[1:].isdigit() else (name, 0.0)
        given = (word.split("=") for word in words)
        named = {key: int(value) if key == "rounds" else float(value) for key, value in given}
        return self.cell(dataset, dynamics, row, **named, **variation)

    def lines(
        self, papers: Sequence[str], dynamics: Sequence[Dynamics], rows: Sequence[Row], /, **varied: Sequence[float]
    ) -> list[PaperCell]:
        """Every combination with every value of the coordinates that are varied; the rows change fastest."""
        return [
            self.cell(dataset, time, row, **dict(zip(varied, values, strict=True)))
            for dataset in self.datasets_of(papers)
            for time in dynamics
            for values in product(*varied.values())
            for row in rows
        ]
