"""Figures of runs: their scores over rounds, time or traffic, and their final scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pandas as pd

from fedswe.charts import Chart, Panel, Series, curves, dots, late_range, over_periods, spread
from fedswe.comparison.measured_run import MeasuredRun, measured_runs, named, of_score, only, runs_table, scores_of
from fedswe.errors import require, warn
from fedswe.plotting import WIDTHS, check_format, render, write
from fedswe.results.table import TAIL, by_seed, in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Abscissa = Literal["rounds", "seconds", "simulated", "bytes"]

_OF_COMPARISONS: dict[Literal["curves", "final"], str] = {"curves": "compare", "final": "compare_final"}
_SPANS = ((2 * 86400.0, 86400.0, "days"), (2 * 3600.0, 3600.0, "hours"), (0.0, 1.0, "seconds"))  # from, unit, name
_BYTES = ((1e9, 1e9, "GB"), (1e6, 1e6, "MB"), (1e3, 1e3, "kB"), (0.0, 1.0, "bytes"))
_COLOURED = 8  # curves: more cannot be told apart
_LOGARITHMIC = 10.0  # losses that differ by a larger factor are drawn on a logarithmic axis


def plot(
    sources: Any,
    x: Abscissa = "rounds",
    y: str | None = None,
    models: str | Sequence[str] = (),
    kind: Literal["curves", "final"] = "curves",
    size: Literal["single", "double"] = "double",
    out: str | Path | Sequence[str | Path] = (),
    labels: Mapping[str, str] | None = None,
) -> Figure:
    """Draw runs, grouped by algorithm over seeds.

    `sources` is a run directory, a comparison directory, a result of `run` or `compare`, or a list of these. `y` is a
    score such as test_accuracy, or another column of the history; default: the test accuracy, or the first loss, or
    the first score. `models` are the evaluated models to draw, default all. `kind="final"` draws the means over the
    last 50 rounds. With `out`, the figure is also written to these .png, .svg or .pdf files. `labels` names curves, by
    the label or the name that they have otherwise; of more than eight curves, those and the best are coloured.
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
        for run in (run for run in runs if run.rounds <= 0):  # the model before the first round has no final score
            warn(f"{run.source} was not evaluated after round 0: it has no final score, and is left out")
        runs = [run for run in runs if run.rounds > 0]
        require(runs, "no run was evaluated after round 0: there are no final scores")
    if models:
        runs = only(runs, [models] if isinstance(models, str) else models)
    table = runs_table(runs)
    scores, columns = scores_of(table), ", ".join(runs[0].history.columns)
    require(y or scores, f"the runs have no score in common: choose a column with y= ({columns})")
    score, (names, facts) = y or scores[0], named(runs, labels or {})
    rows = of_score(table, score).replace({"name": names})
    if kind == "curves":
        chart = _curves(runs, rows, score, x, WIDTHS[size], facts, [names[of] for of in names if names[of] != of])
    else:
        chart = final_chart(runs, rows, score, WIDTHS[size], facts)
    figure = render(chart.draw, chart.size)
    write(figure, *paths)
    return figure


def draw_comparison(directory: Path) -> None:
    """The figures of a comparison, beside its tables: compare has the curves, compare_final the final scores."""
    for kind, name in _OF_COMPARISONS.items():
        plot(directory, kind=kind, out=[directory / f"{name}.png", directory / f"{name}.svg"])


def _by_merit(rows: pd.DataFrame, score: str) -> list[str]:
    """Names, the best first by the first model that has it; those that diverged last."""
    finals = (by_seed(of, "name") for _, of in rows.groupby("model", sort=False))
    means = pd.concat([of.mean() for of in finals]) * (1.0 if score.endswith("loss") else -1.0)
    worth = means[~means.index.duplicated()].replace(-np.inf, np.inf)
    return list(worth.sort_values(kind="stable").index)


def _curves(
    runs: Sequence[MeasuredRun], rows: pd.DataFrame, score: str, x: Abscissa, width: float, facts: str, named: list[str]
) -> Chart:
    panels = panels_of(rows, score, *abscissa(x, runs))
    best = [name for name in _by_merit(rows, score) if name not in named]
    others = best[max(_COLOURED - len(named), 0) :]
    grey = f"{len(others)} others"
    panels = [replace(p, series=[replace(s, label=grey) if s.label in others else s for s in p.series]) for p in panels]
    facts += smoothed(rows)
    facts += " Bytes count both directions." * (x == "bytes")
    facts += f" The {'times' if x == 'simulated' else x} are means over seeds." * (x != "rounds")
    if any(np.isinf(np.asarray(series.seeds)[:, -1]).any() for panel in panels for series in panel.series):
        facts += " A curve ends where one of its seeds diverged."
    return curves(panels, note=facts, width=width, y_range=late_range(panels), grey=grey)


def final_chart(runs: Sequence[MeasuredRun], rows: pd.DataFrame, score: str, width: float, facts: str = "") -> Chart:
    """A row per name, the best first."""
    finals = {str(model): by_seed(of, "name") for model, of in rows.groupby("model", sort=False)}
    names = _by_merit(rows, score)
    series = [
        Series.by_x(in_words(model) or "all", list(map(names.index, of)), [of[name].dropna().tolist() for name in of])
        for model, of in finals.items()
    ]
    panel = Panel(in_words(next(iter(finals))) if len(finals) == 1 else "", series, "", y_name(score))
    facts += f" Scores are means over the last {min(TAIL, max(run.rounds for run in runs)):g} rounds."
    if rows["diverged"].any():
        facts += " There is no mean where a seed diverged."
    return dots(names, replace(panel, log=is_log(score, [panel])), facts, width)


def panels_of(rows: pd.DataFrame, score: str, at: pd.Series[float], x_name: str) -> list[Panel]:
    """The curves of a score with these rows, a panel per model, at the evaluated rounds that all seeds have.

    Losses of different orders of magnitude have a logarithmic axis. What is the same for all names is one curve.
    """
    panels, points = [], rows.explode(["round", "curve"]).astype({"round": float, "curve": float})
    for model, of in points.join(at, on=["run", "round"]).groupby("model", sort=False):
        series = []
        for name, part in of.groupby("name", sort=False):
            seeds = part.pivot(index="seed", columns="round", values="curve").dropna(axis="columns")
            require(seeds.size, f"the runs of {name} have no evaluated round in common: draw them one by one")
            seeds = over_periods(seeds, part["period"].iloc[0])
            series.append(Series(str(name), part.groupby("round")["x"].mean()[seeds.columns].tolist(), seeds))
        alike = all(series[0].x == of.x and np.array_equal(series[0].seeds, of.seeds) for of in series[1:])
        if alike and series[1:] and not model:
            series = [replace(series[0], label="all")]
        panels.append(Panel(in_words(str(model)), series, y_name(score), x_name))
    return [replace(panel, log=is_log(score, panels)) for panel in panels]


def is_log(score: str, panels: Sequence[Panel]) -> bool:
    every = np.concatenate([spread(series).mean for panel in panels for series in panel.series])
    known = every[np.isfinite(every)]
    positive = score.endswith("loss") and known.size and known.min() > 0
    return bool(positive and known.max() / known.min() >= _LOGARITHMIC)


def abscissa(x: Abscissa, runs: Sequence[MeasuredRun]) -> tuple[pd.Series[float], str]:
    """Where the evaluations lie on the x axis, by the number of the run and the round, and the name of the axis."""
    column = {"rounds": "round", "seconds": "seconds", "simulated": "simulated_seconds", "bytes": ""}[x]
    why = "the history has no seconds" if x == "seconds" else 'the run has no simulated time (clock.name = "seconds")'
    places = {}
    for i, run in enumerate(runs):
        require(not column or column in run.history.columns, f'{run.source}: {why}: use x="rounds"')
        places[i] = pd.Series(run.history[column] if column else run.bytes_sent(), run.history["round"])
    at, name = pd.concat(places, names=["run", "round"]).rename("x").astype(float), column
    if units := {"bytes": _BYTES, "simulated": _SPANS}.get(x):
        largest = max(float(of.iloc[-1]) for of in places.values())
        unit, name = next((unit, name) for least, unit, name in units if largest >= least)
        name = f"{name} sent by all clients" if x == "bytes" else f"simulated {name}"
        at /= unit
    uncounted = [run.history["round"] for run in runs if x == "bytes" and "bytes_sent" not in run.history.columns]
    gaps = any(np.diff(rounds, prepend=0.0).max() > 1 for rounds in uncounted)
    return at, name + " (estimated)" * gaps


def smoothed(rows: pd.DataFrame) -> str:
    period = rows["period"].max()
    return f" Curves are means over one period of the availability, {period} rounds." * bool(period)


def y_name(score: str) -> str:
    return f"{in_words(score)}, %" if score.endswith("accuracy") else in_words(score)
