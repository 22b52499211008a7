"""A table the paper does not have: other readings of what it leaves open, beside its numbers for the method.

F3AST's seats and first rates, FedSWE's clip, progress and rates where k > 0, gFedAvg's rate and period, FedAvg with the
clip that the released code has for FedAWE, and a constant local rate for FedSWE and FedAvg.
"""

from __future__ import annotations

from dataclasses import replace

from fedswe_paper.cell import PaperCell
from fedswe_paper.measurements import Measurements
from fedswe_paper.profile import READINGS
from fedswe_paper.recipe import Page, Recipe
from fedswe_paper.recipes.accuracy_tables import accuracy_line, accuracy_table
from fedswe_paper.recipes.labels import label
from fedswe_paper.selection import STEADY, Row, Selection

# A row of Table 2, a reading of its method, and local rates; 0 is the rate of Table 2.
_TRIED: tuple[tuple[Row, str, tuple[float, ...]], ...] = (
    (("fedavg", 0.0), "", (0.0,)),  # for comparison
    (("fedavg", 0.0), "clipped", (0.1, 0.2)),
    (("fedavg", 0.0), "constant-rate", (0.0,)),
    (("f3ast", 0.0), "", (0.0,)),
    (("f3ast", 0.0), "seats10", (0.0,)),
    (("f3ast", 0.0), "from-mean-rate", (0.0,)),
    (("fedswe", 0.0), "", (0.0,)),  # for comparison
    (("fedswe", 0.0), "constant-rate", (0.0,)),
    (("fedswe", 100.0), "", (0.0, 0.2, 0.4)),
    (("fedswe", 100.0), "unclipped", (0.0, 0.2)),
    (("fedswe", 100.0), "active-progress", (0.0,)),
    (("fedswe", 100.0), "eta-g2", (0.0,)),
    (("fedswe", 100.0), "eta-g4", (0.0,)),
    (("fedswe", 100.0), "eta-g1.5", (0.0,)),
    (("fedswe", 100.0), "eta-g5", (0.0,)),
    (("fedswe", 100.0), "eta-g10", (0.0,)),
    (("fedswe", 100.0), "eta-g50", (0.0,)),
    (("fedswe", 100.0), "constant-rate", (0.0,)),
    (("gfedavg", 0.0), "", (0.0, 0.002, 0.001, 0.0005)),
    (("gfedavg", 0.0), "every-round", (0.0,)),
)
# Those that come closest to the published rows under the sine, the defaults beside them, and what the paper's text and
# grid suggest for k = 100, also under other dynamics.
_EVERYWHERE = (
    "",
    "from-mean-rate",
    "active-progress",
    "eta-g2",
    "eta-g1.5",
    "eta-g5",
    "constant-rate",
    "every-round",
)


def _differs(cell: PaperCell) -> bool:
    """Whether the reading changes anything: one profile may follow already what is open in the other."""
    return not cell.reading or cell.experiment() != replace(cell, reading="").experiment()


def _lines(selection: Selection) -> list[PaperCell]:
    tried = [
        selection.cell(dataset, dynamics, row, rate=rate, reading=reading)
        for dataset in selection.datasets_of(["svhn", "cifar10"])
        for dynamics in STEADY
        for row, reading, rates in _TRIED
        for rate in rates
        if dynamics == "sine" or (reading in _EVERYWHERE and not rate)
    ]
    return [cell for cell in tried if _differs(cell)]


def _report(selection: Selection, measured: Measurements) -> Page:
    cells = _lines(selection)
    lines = [
        accuracy_line(c, (c.dataset, c.dynamics, label(c), f"{c.experiment().local.lr:g}"), measured, "table2")
        for c in cells
    ]
    title = "Open readings: accuracy beside Table 2"
    names = ("data", "dynamics", "algorithm", "local rate")
    reasons = {label(c): READINGS[c.reading].why for c in cells if c.reading}
    notes = [f"{name}: {why}" for name, why in reasons.items()]
    return accuracy_table(selection, title, names, lines, measured, cells, notes)


OPEN_READINGS = Recipe("readings", "not in the paper", "other readings of five rows, beside Table 2", _lines, _report)
