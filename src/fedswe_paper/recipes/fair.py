"""A table the paper does not have: every method with the same tuning effort and the same selection of judged model.

Each method runs with every local rate of one grid, on training data of which a tenth is held out. For each judged
model (server, client mean, exponential average of server models) the rate is the one with the best accuracy on the
held-out data at the end of the run, averaged over seeds; the test accuracy at that rate is reported. Test data play no
part in the selection.
"""

from __future__ import annotations

import math

from fedswe_paper.cell import Dynamics, PaperCell
from fedswe_paper.measurements import Measurements
from fedswe_paper.publish import Page, Recipe
from fedswe_paper.recipes.labels import label, remarks
from fedswe_paper.selection import ROWS, Row, Selection
from fedswe_paper.tables import Line, Measured, VerdictTable

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


def rates_of(algorithm: str) -> tuple[float, ...]:
    """The grid; gFedAvg multiplies its progress by ten, so its rates are ten times smaller."""
    return tuple(rate / 10 for rate in _RATES) if algorithm == "gfedavg" else _RATES


def _settings(selection: Selection) -> list[tuple[str, Dynamics, float]]:
    return [
        (dataset, dynamics, alpha)
        for dataset in selection.datasets_of(["svhn", "cifar10"])
        for dynamics, alpha in SETTINGS
    ]


def tried(
    selection: Selection, dataset: str, dynamics: Dynamics, alpha: float, row: Row, reading: str = ""
) -> list[PaperCell]:
    """The line of each rate."""
    return [
        selection.cell(dataset, dynamics, row, alpha=alpha, rate=rate, hold_out=_HOLD_OUT, reading=reading)
        for rate in rates_of(row[0])
    ]


def tuned(cells: list[PaperCell], measured: Measurements, output: str) -> PaperCell | None:
    """The line whose rate is best on held-out data; None until every rate has the same seeds."""
    seeds = [frozenset(measured.scores(cell, "held_out_accuracy", output)) for cell in cells]
    if not seeds[0] or len(set(seeds)) > 1:
        return None

    def held_out(cell: PaperCell) -> float:
        found = measured.score(cell, "held_out_accuracy", output)
        assert found is not None
        return -1.0 if math.isnan(found.mean) else found.mean  # a rate at which a run diverged is not chosen

    return max(cells, key=held_out)


def _lines(selection: Selection) -> list[PaperCell]:
    return [cell for setting in _settings(selection) for row in _ROWS for cell in tried(selection, *setting, *row)]


def _report(selection: Selection, measured: Measurements) -> Page:
    tables = []
    for dataset, dynamics, alpha in _settings(selection):
        lines = []
        for row in _ROWS:
            cells = tried(selection, dataset, dynamics, alpha, *row)
            best = [tuned(cells, measured, output) for output in OUTPUTS]
            ours: list[Measured | None] = [
                None if cell is None else measured.score(cell, "test_accuracy", output)
                for cell, output in zip(best, OUTPUTS, strict=True)
            ]
            rates = ", ".join("—" if cell is None else f"{cell.rate:g}" for cell in best)
            lines.append(Line((label(cells[0]), rates), tuple(ours), (None,) * len(OUTPUTS)))
        cells = [c for c in _lines(selection) if (c.dataset, c.dynamics, c.alpha) == (dataset, dynamics, alpha)]
        tables.append(
            VerdictTable(
                f"Same tuning for all: test accuracy, {dataset}, {dynamics}, alpha {alpha:g}",
                ("algorithm", "chosen rates"),
                tuple(output.replace("_", " ") for output in OUTPUTS),
                lines,
                selection.profile,
                [
                    f"local rates {', '.join(f'{r:g}' for r in _RATES)} (gFedAvg: a tenth of these), chosen for each "
                    "judged model by accuracy on a held-out tenth of the training data at the end of the run",
                    *remarks(cells, measured),
                ],
            )
        )
    return Page(tables)


FAIR = Recipe("fair-table", "not in the paper", "the same tuning and the same judged models for all", _lines, _report)
