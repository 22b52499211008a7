"""Figures of runs: their scores over rounds, time or traffic, and their final scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pandas as pd

from fedswe.errors import require, warn
from fedswe.figures.runs import (
    Abscissa,
    MeasuredRun,
    by_model,
    facts_of,
    finals_of,
    is_log,
    measured_runs,
    models_of,
    panels_of,
    scores_of,
    words,
    y_name,
)
from fedswe.plotting import WIDTHS, Chart, Panel, Series, check_format, curves, dots, late_range, render, write
from fedswe.results.table import TAIL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_OF_COMPARISONS: dict[Literal["curves", "final"], str] = {"curves": "compare", "final": "compare_final"}


def plot(
    sources: Any,
    x: Abscissa = "rounds",
    y: str | None = None,
    models: str | Sequence[str] = (),
    kind: Literal["curves", "final"] = "curves",
    size: Literal["single", "double"] = "double",
    out: str | Path | Sequence[str | Path] = (),
) -> Figure:
    """Draw runs, grouped by algorithm over seeds.

    `sources` is a run directory, a comparison directory, a result of `run` or `compare`, or a list of these. `y` is a
    score such as test_accuracy, or another column of the history; default: the test accuracy, or the first loss, or
    the first score. `models` are the evaluated models to draw, default all. `kind="final"` draws the means over the
    last 50 rounds. With `out`, the figure is also written to these .png, .svg or .pdf files.
    """
    paths = [Path(path) for path in ([out] if isinstance(out, str | Path) else out)]
    for path in paths:
        check_format(path)
    known = {"x": (x, get_args(Abscissa)), "kind": (kind, tuple(_OF_COMPARISONS)), "size": (size, tuple(WIDTHS))}
    for option, (value, choices) in known.items():
        require(value in choices, f"unknown {option} {value!r}: choose {', '.join(choices)}")
    several = isinstance(sources, Iterable) and not isinstance(sources, str)
    runs = measured_runs(sources if several else [sources])
    if kind == "final":
        runs = _begun(runs)
    shown = models_of(runs, [models] if isinstance(models, str) else models)
    scores, columns = scores_of(runs, shown), ", ".join(runs[0].history.columns)
    require(y or scores, f"the runs have no score in common: choose a column with --y ({columns})")
    score, drawn = y or scores[0], [run for run in runs if set(run.models) & set(shown)]
    if kind == "curves":
        chart = _curves(drawn, shown, score, x, WIDTHS[size])
    else:
        chart = _final(drawn, shown, score, WIDTHS[size])
    figure = render(chart.draw, chart.size)
    write(figure, *paths)
    return figure


def draw_comparison(directory: Path) -> None:
    """The figures of a comparison, beside its tables: compare has the curves, compare_final the final scores."""
    for kind, name in _OF_COMPARISONS.items():
        plot(directory, kind=kind, out=[directory / f"{name}.png", directory / f"{name}.svg"])


def _begun(runs: Sequence[MeasuredRun]) -> list[MeasuredRun]:
    """Those with final scores; the model before the first round has none."""
    for run in (run for run in runs if run.rounds <= 0):
        warn(f"{run.source} was not evaluated after round 0: it has no final score, and is left out")
    begun = [run for run in runs if run.rounds > 0]
    require(begun, "no run was evaluated after round 0: there are no final scores")
    return begun


def _curves(runs: Sequence[MeasuredRun], models: Sequence[str], score: str, x: Abscissa, width: float) -> Chart:
    panels, facts = panels_of(runs, models, score, x), facts_of(runs)
    facts += " Bytes count both directions." * (x == "bytes")
    facts += f" The {'times' if x == 'simulated' else x} are means over seeds." * (x != "rounds")
    if any(np.isinf(np.asarray(series.seeds)[:, -1]).any() for panel in panels for series in panel.series):
        facts += " A curve ends where one of its seeds diverged."
    return curves(panels, note=facts, width=width, y_range=late_range(panels))


def _final(runs: Sequence[MeasuredRun], models: Sequence[str], score: str, width: float) -> Chart:
    """A row per name, the best first by the first model that has it; those that diverged last."""
    finals = {model: finals_of(groups, score, model) for model, groups in by_model(runs, models, score).items()}
    means = pd.concat([of.mean() for of in finals.values()]) * (1.0 if score.endswith("loss") else -1.0)
    worth = means[~means.index.duplicated()].replace(-np.inf, np.inf)
    rows = worth.sort_values(kind="stable").index.tolist()
    series = [
        Series.by_x(
            words(model) or "all", [rows.index(name) for name in of], [of[name].dropna().tolist() for name in of]
        )
        for model, of in finals.items()
    ]
    panel = Panel(words(next(iter(finals))) if len(finals) == 1 else "", series, "", y_name(score))
    facts = f"{facts_of(runs)} Scores are means over the last {min(TAIL, max(run.rounds for run in runs)):g} rounds."
    if any(np.isinf(of).any(axis=None) for of in finals.values()):
        facts += " There is no mean where a seed diverged."
    return dots(rows, replace(panel, log=is_log(score, [panel])), facts, width)
