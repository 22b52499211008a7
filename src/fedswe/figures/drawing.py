"""One figure of several runs: curves of a score, or final scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from fedswe.errors import require, warn
from fedswe.figures.drawn import (
    Abscissa,
    Drawn,
    abscissa,
    facts_of,
    groups_by_model,
    headline_of,
    models_of,
    scaled,
    series_of,
    unit_of,
    words,
)
from fedswe.figures.measured import MeasuredRun, measured_runs
from fedswe.plotting import WIDTHS, Chart, Panel, Series, check_format, curves, dots, late_range, render, write
from fedswe.results.table import TAIL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Kind = Literal["curves", "final"]

_OF_COMPARISONS: dict[Kind, str] = {"curves": "compare", "final": "compare_final"}


def plot(
    sources: Any,
    x: Abscissa = "rounds",
    y: str | None = None,
    models: str | Sequence[str] = (),
    kind: Kind = "curves",
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
    for option, value, known in (
        ("x", x, get_args(Abscissa)),
        ("kind", kind, ("curves", "final")),
        ("size", size, tuple(WIDTHS)),
    ):
        require(value in known, f"unknown {option} {value!r}: choose {', '.join(known)}")
    several = isinstance(sources, Iterable) and not isinstance(sources, str)
    runs = measured_runs(sources if several else [sources])
    if kind == "final":
        runs = _begun(runs)
    shown = models_of(runs, [models] if isinstance(models, str) else models)
    score = y or headline_of(runs, shown)
    per_model = groups_by_model(runs, shown, score)
    draw = _curves if kind == "curves" else _final
    chart = draw(per_model, score, x, facts_of(runs), WIDTHS[size])
    figure = render(chart.draw, chart.size)
    write(figure, *paths)
    return figure


def draw_comparison(directory: Path) -> None:
    """The figures of a comparison, beside its tables: compare has the curves, compare_final the final scores."""
    for kind, name in _OF_COMPARISONS.items():
        plot(directory, kind=kind, out=[directory / f"{name}.png", directory / f"{name}.svg"])


# what is drawn -----------------------------------------------------------------------------------------------
def _begun(runs: Sequence[MeasuredRun]) -> list[MeasuredRun]:
    """Those with final scores; the model before the first round has none."""
    for run in (run for run in runs if run.history.last["round"] <= 0):
        warn(f"{run.source} was not evaluated after round 0: it has no final score, and is left out")
    begun = [run for run in runs if run.history.last["round"] > 0]
    require(begun, "no run was evaluated after round 0: there are no final scores")
    return begun


# charts ------------------------------------------------------------------------------------------------------
def _curves(per_model: dict[str, Drawn], score: str, x: Abscissa, facts: str, width: float) -> Chart:
    positions, x_name = abscissa(x, [run for drawn in per_model.values() for run in drawn.runs])
    factor, y_name = unit_of(score)
    panels = []
    for model, drawn in per_model.items():
        series = [series_of(group, drawn.values, positions, factor) for group in drawn.groups]
        panels.append(Panel(words(model), series, y_name, x_name))
    panels = scaled(panels, score)
    if x == "bytes":
        facts += " Bytes count both directions"
        facts += "; they are estimated from the reports in evaluated rounds." if "estimated" in x_name else "."
    if x != "rounds" and any(len(group.runs) > 1 for drawn in per_model.values() for group in drawn.groups):
        facts += f" The {'times' if x == 'simulated' else x} are means over seeds."
    if _any_diverged(per_model):
        facts += " A curve ends where one of its seeds diverged."
    return curves(panels, note=facts, width=width, y_range=late_range(panels))


def _final(per_model: dict[str, Drawn], score: str, x: Abscissa, facts: str, width: float) -> Chart:
    factor, x_name = unit_of(score)
    values = {
        model: {group.name: [factor * drawn.final(run) for run in group.runs] for group in drawn.groups}
        for model, drawn in per_model.items()
    }
    rows = _sorted(values, descending=not score.endswith("loss"))
    series = [
        Series.by_x(words(model) or "all", [rows.index(name) for name in of], list(of.values()))
        for model, of in values.items()
    ]
    title = words(next(iter(values))) if len(values) == 1 else ""
    panel = scaled([Panel(title, series, "", x_name)], score)[0]
    rounds = max(run.history.last["round"] for drawn in per_model.values() for run in drawn.runs)
    facts += f" Scores are means over the last {min(TAIL, rounds):g} rounds."
    if _any_diverged(per_model):
        facts += " There is no mean where a seed diverged."
    return dots(rows, panel, facts, width)


def _any_diverged(per_model: dict[str, Drawn]) -> bool:
    return any(drawn.diverged(run) for drawn in per_model.values() for run in drawn.runs)


def _sorted(values: dict[str, dict[str, list[float]]], descending: bool) -> list[str]:
    """The best first, by the first model that has them; those that diverged last."""
    first: dict[str, float] = {}
    for of in values.values():
        for name, scores in of.items():
            mean = float(np.mean(scores))
            first.setdefault(name, (-mean if descending else mean) if np.isfinite(mean) else np.inf)
    return sorted(first, key=first.__getitem__)
