"""Figures 6 to 12: two groups that take turns, and what k does for FedSWE there. All share one set of cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fedswe.charts import Chart, Panel, Series, chart, curves, spread
from fedswe.plotting import GREY, RED, count_axis, message
from fedswe_paper.cell import Dynamics, PaperCell
from fedswe_paper.illustrations import alternating_groups
from fedswe_paper.measurements import Measurements, all_or_nan, summary
from fedswe_paper.publish import Page, Recipe
from fedswe_paper.recipes.labels import label, remarks, seeds_named
from fedswe_paper.results import FinishedRun
from fedswe_paper.selection import PERIODIC, Row, Selection
from fedswe_paper.tables import Line, Unit, VerdictTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BASELINES: tuple[Row, ...] = tuple(
    (name, 0.0) for name in ("fedavg", "gfedavg", "fedavg_known", "fedau", "mifa", "fedvarp")
)
_OUTPUTS, _COLUMNS = ("server", "client_mean"), ("server", "client mean")
_EVALUATIONS = 10  # before the first NaN, to average over
Lines = Callable[[Selection, str, Dynamics], list[PaperCell]]
Places = list[tuple[str, list[PaperCell]]]  # the title and the cells of each data set and dynamics


def sweep(selection: Selection, dataset: str, dynamics: Dynamics) -> list[PaperCell]:
    """FedSWE for every k."""
    return [selection.cell(dataset, dynamics, ("fedswe", k)) for k in selection.scale.ks]


def rivals(selection: Selection, dataset: str, dynamics: Dynamics) -> list[PaperCell]:
    """The six baselines, and FedSWE with k = 0 and k = 100."""
    return [selection.cell(dataset, dynamics, row) for row in (("fedswe", 0.0), ("fedswe", 100.0), *BASELINES)]


def _recipe(
    number: int, title: str, of: Lines, papers: Sequence[str], report: Callable[[Selection, Measurements, Places], Page]
) -> Recipe:
    def places(selection: Selection) -> Places:
        return [
            (f"{dataset}, {dynamics}", of(selection, dataset, dynamics))
            for dataset in selection.datasets_of(papers)
            for dynamics in PERIODIC
        ]

    return Recipe(
        f"fig{number}",
        f"Figure {number}",
        title,
        lambda selection: [cell for _, cells in places(selection) for cell in cells],
        lambda selection, measured: report(selection, measured, places(selection)),
    )


def _curve(cell: PaperCell, measured: Measurements, column: str, factor: float = 1.0) -> list[Series]:
    """It ends where a run diverged, which the chart is told by infinite values."""
    runs = measured.of(cell)
    seeds = [
        np.where(np.arange(len(run.history.rows)) < run.finite_rows, factor * run.curve(column), np.inf) for run in runs
    ]
    return [Series(label(cell), runs[0].history["round"].tolist(), seeds)] if runs else []


def _consensus(selection: Selection, measured: Measurements, places: Places) -> Page:
    panels, tables = [], []
    for where, cells in places:
        tables += _diverged(selection, measured, cells, where)
        series = [s for cell in cells for s in _curve(cell, measured, "consensus_clients")]
        panels.append(Panel(where, series, r"$(1/m)\,\Sigma\,\|x_i - \bar{x}\|^2$", log=True))
    charts = {"consensus": curves(panels, ordered=True), "dynamics": alternating_groups()}
    return Page(tables, charts, remarks([cell for _, cells in places for cell in cells], measured))


def _accuracy_curves(selection: Selection, measured: Measurements, places: Places) -> Page:
    panels, tables = [], []
    judged = set()
    for where, cells in places:
        for output, model in zip(_OUTPUTS, _COLUMNS, strict=True):
            series = [s for cell in cells for s in _curve(cell, measured, f"{output}_test_accuracy", 100)]
            panels.append(Panel(f"{where}, {model}", series, "test accuracy, %"))
        # The paper shows curves only. A table for each length of the runs, the longest first: rows of different lengths
        # cannot be ranked.
        lengths = sorted({rounds for cell in cells for rounds in measured.rounds(cell)}, reverse=True)
        if len(lengths) < 2:
            tables.append(_final(selection, measured, cells, where))
        for rounds in lengths if len(lengths) > 1 else ():
            alike = [replace(cell, rounds=rounds) for cell in cells]
            tables.append(_final(selection, measured, alike, f"{where}, {rounds} rounds"))
        tables += _diverged(selection, measured, cells, where)
        runs = [run.cell for cell in cells for run in measured.of(cell)]
        judged |= {(cell.dataset, e.every, e.tail, e.tail_every) for cell in runs if (e := cell.experiment().evaluate)}
    notes = []
    for dataset, every, tail, tail_every in sorted(judged):
        note = f"{dataset}: judged every {every} rounds, in the last {tail} every {tail_every}"
        if every % selection.scale.period == 0:
            note += "; before these always in the same phase, so that curves show the swing between the groups at "
            note += "their end only"
        notes.append(note)
    return Page(tables, {"test-accuracy": curves(panels)}, notes)


def _final(selection: Selection, measured: Measurements, cells: list[PaperCell], where: str) -> VerdictTable:
    """At both models. Where rows have different seeds, also with those that all have: only these can be ranked."""
    common, lines = measured.common_seeds(cells), []
    uneven = bool(common) and any(0 < len(measured.scored(cell)) != len(common) for cell in cells)
    columns = (*_COLUMNS, *(f"{column}, {seeds_named(common)}" for column in _COLUMNS if uneven))
    for cell in cells:
        by_seed = [measured.scores(cell, "test_accuracy", output) for output in _OUTPUTS]
        values = [summary(list(each.values())) for each in by_seed]
        if uneven:
            values += [summary([each[seed] for seed in common if seed in each]) for each in by_seed]
        lines.append(Line((label(cell),), values))
    notes = [f"mean over all phases of the last {selection.scale.periodic_tail} rounds", *remarks(cells, measured)]
    return VerdictTable(f"Final test accuracy, {where}", ("algorithm",), columns, lines, selection.profile, notes)


def _diverged(selection: Selection, measured: Measurements, cells: list[PaperCell], where: str) -> list[VerdictTable]:
    """Where runs ended in NaN: all rows before that, and the same runs with bounded gradients."""
    runs = {cell: measured.of(cell) for cell in cells}
    every = [run for found in runs.values() for run in found]
    if not any(run.diverged for run in every):
        return []
    until = min(run.last_finite for run in every if run.diverged)

    def before(run: FinishedRun, column: str) -> float:
        return float(np.mean(run.history[column][run.history["round"] <= until][-_EVALUATIONS:]))

    def table(title: str, columns: tuple[str, ...], lines: list[Line], note: str, unit: Unit = "%") -> VerdictTable:
        return VerdictTable(f"{title}, {where}", ("algorithm",), columns, lines, selection.profile, [note], unit)

    accuracy, error = [], []
    for cell, found in runs.items():
        by_model = [[100 * before(run, f"{output}_test_accuracy") for run in found] for output in _OUTPUTS]
        accuracy.append(Line((label(cell),), list(map(summary, by_model))))
        error.append(Line((label(cell),), [summary([before(run, "consensus_clients") for run in found])]))
    note = f"mean of the last {_EVALUATIONS} evaluations at which every run is finite, until round {until}"
    tables = [
        table("Test accuracy before the first NaN", _COLUMNS, accuracy, note),
        table("Consensus error before the first NaN", ("error",), error, note, "error"),
    ]
    bounded = [twin for run in every if (twin := measured.bounded.get(run.cell))]
    if bounded:
        again = [
            Line(
                (f"{label(run.cell)}, seed {run.cell.seed}",),
                [summary([run.score("test_accuracy", output)]) for output in _OUTPUTS],
            )
            for run in bounded
        ]
        limits = ", ".join(sorted({f"{run.bound:g}" for run in bounded}))
        note = f"every stochastic gradient bounded to a norm of {limits}, unlike in the paper: in no verdict"
        tables.append(table("Runs repeated with bounded gradients", _COLUMNS, again, note))
    return tables


def _by_k(
    y: str, values: Callable[[Selection, Measurements, PaperCell], dict[int, float]], of_diverged: str = ""
) -> Callable[[Selection, Measurements, Places], Page]:
    """A number of each run against k."""

    def report(selection: Selection, measured: Measurements, places: Places) -> Page:
        panels, tables, notes = [], [], []
        shown: list[PaperCell] = []
        for where, every in places:
            cells = measured.alike([cell for cell in every if measured.of(cell)])
            tables += _diverged(selection, measured, cells, where)
            found = [values(selection, measured, cell) for cell in cells]
            common = sorted(set.intersection(*map(set, found))) if found else []
            points = [all_or_nan([each[seed] for seed in common]) for each in found]
            series = [Series.by_x("FedSWE", [cell.k for cell in cells], points)] if common else []
            panels.append(Panel(where, series, y, x="k"))
            notes += [f"{where}: {seeds_named(common)}, which every k has"] if common else []
            shown += cells
        notes += remarks(shown, measured)
        if of_diverged and any(run.diverged for cell in shown for run in measured.of(cell)):
            notes.append(of_diverged)
        return Page(tables, {"by-k": against_k(panels, selection.scale.clients)}, notes)

    return report


def against_k(panels: Sequence[Panel], clients: int) -> Chart:
    """Points with error bars over k of one series, and a dotted line at k = m.

    An arrow at the top is a k that never reached y, a cross one with a run that diverged (NaN); there the line has a
    gap.
    """

    def plot(axes: Axes, panel: Panel) -> None:
        (series,) = panel.series
        k, at, top = np.asarray(series.x, dtype=np.float64), spread(series), axes.get_xaxis_transform()
        finite = np.isfinite(at.mean)
        mean, high = (np.where(finite, values, np.nan) for values in (at.mean, at.high))
        axes.errorbar(
            k, mean, high - mean, fmt="o-", color=RED, markersize=4, linewidth=1.3, elinewidth=0.9, capsize=2,
            label=series.label if finite.any() else None,
        )  # fmt: skip
        for of, marker, y, text in (
            (np.isinf(at.mean), "^", 0.97, "never"),
            (np.isnan(at.mean), "x", 0.96, "diverged"),
        ):
            if of.any():
                axes.plot(
                    k[of], np.full(of.sum(), y), marker, color=RED, transform=top, label=f"{series.label}: {text}"
                )
        if not finite.any():
            message(axes, "never reached for any k")
        axes.axvline(clients, color=GREY, linewidth=0.8, linestyle=":")
        axes.text(clients, 0.01, " k = m", color=GREY, fontsize=7, transform=top)
        count_axis(axes, zero=True)
        axes.set_xlim(-0.15, 1.3 * max(clients, *k))  # k = 0 is clear

    return chart(panels, plot)


_final_by_k = _by_k("test accuracy, %", lambda _, measured, cell: measured.scores(cell, "test_accuracy"))
_rounds_by_k = _by_k(
    "rounds to the target accuracy",
    lambda selection, measured, cell: measured.rounds_to(cell, selection.scale.target),
    "a round that a run reached before it ended in NaN is shown, and decides no claim",
)
PERIODIC_RECIPES = [
    _recipe(6, "consensus error for several k", sweep, ["svhn", "cifar10"], _consensus),
    _recipe(7, "test accuracy in turns of two groups, svhn", rivals, ["svhn"], _accuracy_curves),
    _recipe(8, "final test accuracy against k, svhn", sweep, ["svhn"], _final_by_k),
    _recipe(9, "rounds to a test accuracy against k, svhn", sweep, ["svhn"], _rounds_by_k),
    _recipe(10, "test accuracy in turns of two groups, cifar10", rivals, ["cifar10"], _accuracy_curves),
    _recipe(11, "final test accuracy against k, cifar10", sweep, ["cifar10"], _final_by_k),
    _recipe(12, "rounds to a test accuracy against k, cifar10", sweep, ["cifar10"], _rounds_by_k),
]
