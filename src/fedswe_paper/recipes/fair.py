"""A table the paper does not have: every method with the same tuning effort and the same selection of judged model.

Each method runs with every local rate of one grid, on training data of which a tenth is held out. For each judged
model (server, client mean, exponential average of server models) the rate is the one with the best accuracy on the
held-out data at the end of the run, averaged over seeds; the test accuracy at that rate is reported. Test data play no
part in the selection.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedswe_paper.cell import Dynamics, PaperCell
from fedswe_paper.measurements import Measurements
from fedswe_paper.publish import Page, Recipe
from fedswe_paper.recipes.labels import label, remarks
from fedswe_paper.selection import ROWS, Row, Selection
from fedswe_paper.tables import Line, VerdictTable

OUTPUTS = ("server", "client_mean", "ema")
_RATES = (0.02, 0.05, 0.1, 0.2)
_HOLD_OUT = 0.1
# With the rows of Table 2, one more k, and FedAvg with the clip that the released code has for FedSWE alone: without it
# FedAvg diverges at large rates at which FedSWE does not.
_ROWS: tuple[tuple[Row, str], ...] = (
    (("fedswe", 10.0), ""),
    *((row, "") for row in ROWS),
    (("fedavg", 0.0), "clipped"),
)
# The paper's setting, and two where bias should bite harder.
SETTINGS: tuple[tuple[Dynamics, float], ...] = (("sine", 0.1), ("sine", 0.05), ("periodic-static", 0.1))


def tried(cell: PaperCell) -> list[PaperCell]:
    """The line of each rate; gFedAvg multiplies its progress by ten, so its rates are ten times smaller."""
    smaller = 10 if cell.algorithm == "gfedavg" else 1
    return [replace(cell, rate=rate / smaller, hold_out=_HOLD_OUT) for rate in _RATES]


def tuned(cells: list[PaperCell], measured: Measurements, output: str) -> PaperCell | None:
    """The line whose rate is best on held-out data; None until every rate has the same seeds."""
    held_out = [measured.scores(cell, "held_out_accuracy", output) for cell in cells]
    if not held_out[0] or any(by_seed.keys() != held_out[0].keys() for by_seed in held_out):
        return None
    means = [np.mean(list(by_seed.values())) for by_seed in held_out]
    return cells[int(np.argmax(np.nan_to_num(means, nan=-1.0)))]  # a rate at which a run diverged is not chosen


def _tables(selection: Selection) -> list[tuple[str, list[list[PaperCell]]]]:
    """Of each table where it is, and for each of its rows the line of each rate."""
    return [
        (
            f"{dataset}, {dynamics}, alpha {alpha:g}",
            [tried(selection.cell(dataset, dynamics, row, alpha=alpha, reading=reading)) for row, reading in _ROWS],
        )
        for dataset in selection.datasets_of(["svhn", "cifar10"])
        for dynamics, alpha in SETTINGS
    ]


def _lines(selection: Selection) -> list[PaperCell]:
    return [cell for _, rows in _tables(selection) for cells in rows for cell in cells]


def _report(selection: Selection, measured: Measurements) -> Page:
    tables = []
    for where, rows in _tables(selection):
        lines = []
        for cells in rows:
            best = {output: tuned(cells, measured, output) for output in OUTPUTS}
            ours = [measured.score(c, "test_accuracy", output) if c else None for output, c in best.items()]
            rates = ", ".join(f"{cell.rate:g}" if cell else "—" for cell in best.values())
            lines.append(Line((label(cells[0]), rates), ours))
        notes = [
            f"local rates {', '.join(f'{r:g}' for r in _RATES)} (gFedAvg: a tenth of these), chosen for each "
            "judged model by accuracy on a held-out tenth of the training data at the end of the run",
            *remarks([cell for cells in rows for cell in cells], measured),
        ]
        title, columns = f"Same tuning for all: test accuracy, {where}", tuple(o.replace("_", " ") for o in OUTPUTS)
        tables.append(VerdictTable(title, ("algorithm", "chosen rates"), columns, lines, selection.profile, notes))
    return Page(tables)


FAIR = Recipe("fair-table", "not in the paper", "the same tuning and the same judged models for all", _lines, _report)
