"""One figure of several runs: curves of a score, or final scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from fedswe.clock.timed import COLUMNS
from fedswe.comparison.table import TAIL, has_diverged, headline, tail_score
from fedswe.errors import require, suggestion, warn
from fedswe.figures.groups import Group, groups_of
from fedswe.figures.measured import MeasuredRun, measured_runs
from fedswe.figures.traffic import bytes_sent, is_exact
from fedswe.plotting import WIDTHS, Chart, Panel, Series, check_format, curves, dots, late_range, render, spread, write
from fedswe.results.divergence import divergence
from fedswe.results.history import History, Tally

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Abscissa = Literal["rounds", "seconds", "simulated", "bytes"]
Kind = Literal["curves", "final"]
Column = Callable[[MeasuredRun], npt.NDArray[np.float64]]

_SPANS = ((2 * 86400.0, 86400.0, "days"), (2 * 3600.0, 3600.0, "hours"), (0.0, 1.0, "seconds"))  # from, unit, name
_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes"))
_OF_COMPARISONS: dict[Kind, str] = {"curves": "compare", "final": "compare_final"}
_LARGEST = 1e100
_LOGARITHMIC = 10.0  # losses that differ by a larger factor are drawn on a logarithmic axis
_OF_ANY_MODEL = ("round", "seconds", *Tally().columns(), *COLUMNS)  # columns that a diverged model does not change


@dataclass(frozen=True)
class _Drawn:
    """What a panel shows: a column of some runs, and the columns (by their beginning) that tell which runs diverged."""

    groups: list[Group]
    column: str
    prefix: str

    @property
    def runs(self) -> list[MeasuredRun]:
        return [run for group in self.groups for run in group.runs]

    def values(self, run: MeasuredRun) -> npt.NDArray[np.float64]:
        """At the evaluations; infinite where they are not finite, and from the first sign on that the run diverged."""
        values = _drawable(run.history[self.column])
        if self.diverged(run):
            first, rows = run.history.rows[0], run.history.rows
            signs = np.array([bool(divergence(History([first, row]), self.prefix, run.models)) for row in rows])
            values[np.argmax(signs | ~np.isfinite(values)) :] = np.inf
        return np.where(np.isfinite(values), values, np.inf)

    def final(self, run: MeasuredRun) -> float:
        """The mean over the last rounds; infinite if the run diverged."""
        if self.diverged(run):
            return np.inf
        value = float(_drawable(np.array(tail_score(run.history, self.column))))
        return value if np.isfinite(value) else np.inf

    def diverged(self, run: MeasuredRun) -> bool:
        """By the rule of the table of a comparison; a run that has only begun has no mean over its last rounds."""
        if run.history.last["round"] <= 0:
            return bool(divergence(run.history, self.prefix, run.models))
        return has_diverged(run.history, self.prefix, self.column, run.models)


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
    shown = _models(runs, [models] if isinstance(models, str) else models)
    score = y or _headline(runs, shown)
    per_model = _groups(runs, shown, score)
    draw = _curves if kind == "curves" else _final
    chart = draw(per_model, score, x, _facts(runs), WIDTHS[size])
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


def _models(runs: Sequence[MeasuredRun], asked: Sequence[str]) -> list[str]:
    known = list(dict.fromkeys(model for run in runs for model in run.models))
    for name in asked:
        require(name in known, f"no run was evaluated at the model {name!r}: {suggestion(name, known)}")
    return [model for model in known if not asked or model in asked]


def _headline(runs: Sequence[MeasuredRun], models: Sequence[str]) -> str:
    """As in the table of a comparison."""
    found = headline(_scores(runs, models))
    columns = ", ".join(runs[0].history.columns)
    require(found, f"the runs have no score in common: choose a column with --y ({columns})")
    return str(found)


def _scores(runs: Sequence[MeasuredRun], models: Sequence[str]) -> list[str]:
    """Those that all runs have for all these models."""
    each = [run.scores(model) for run in runs for model in run.models if model in models]
    return [name for name in each[0] if all(name in of for of in each)]


def _groups(runs: Sequence[MeasuredRun], models: Sequence[str], score: str) -> dict[str, _Drawn]:
    """By the name of a panel, what it shows."""
    if all(score in run.history.columns for run in runs):  # a column that belongs to no model, such as available
        return {"": _Drawn(groups_of(_distinct(runs)), score, score if score in _OF_ANY_MODEL else "")}
    known = _scores(runs, models)
    require(score in known, f"unknown score {score!r}: {suggestion(score, [*known, *_other_columns(runs)])}")
    return {
        model: _Drawn(groups_of([run for run in runs if model in run.models]), f"{model}_{score}", f"{model}_")
        for model in models
    }


def _drawable(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Scores beyond any axis are infinite, so that means and ranges do not overflow; those below any axis are 0."""
    size = np.abs(values)
    return np.where(size > _LARGEST, np.copysign(np.inf, values), np.where(size < 1 / _LARGEST, 0.0, values))


def _distinct(runs: Sequence[MeasuredRun]) -> list[MeasuredRun]:
    """A result of `compare` has a run once for every model."""
    return list({id(run.history): run for run in runs}.values())


def _other_columns(runs: Sequence[MeasuredRun]) -> list[str]:
    of_models = tuple(f"{model}_" for run in runs for model in run.models)
    return [c for c in runs[0].history.columns if not c.startswith(of_models) and c != "round"]


# charts ------------------------------------------------------------------------------------------------------
def _curves(per_model: dict[str, _Drawn], score: str, x: Abscissa, facts: str, width: float) -> Chart:
    positions, x_name = _abscissa(x, [run for drawn in per_model.values() for run in drawn.runs])
    factor, y_name = _unit(score)
    panels = []
    for model, drawn in per_model.items():
        series = [_series(group, drawn.values, positions, factor) for group in drawn.groups]
        panels.append(Panel(_words(model), series, y_name, x_name))
    panels = _scaled(panels, score)
    if x == "bytes":
        facts += " Bytes count both directions"
        facts += "; they are estimated from the reports in evaluated rounds." if "estimated" in x_name else "."
    if x != "rounds" and any(len(group.runs) > 1 for drawn in per_model.values() for group in drawn.groups):
        facts += f" The {'times' if x == 'simulated' else x} are means over seeds."
    if _any_diverged(per_model):
        facts += " A curve ends where one of its seeds diverged."
    return curves(panels, note=facts, width=width, y_range=late_range(panels))


def _series(group: Group, column: Column, positions: Column, factor: float) -> Series:
    """The evaluated rounds that all seeds of a group have."""
    common = sorted(set.intersection(*(set(run.history["round"].tolist()) for run in group.runs)))
    require(common, f"the runs of {group.name} have no evaluated round in common: draw them one by one")
    at = [np.isin(run.history["round"], common) for run in group.runs]
    x = np.mean([positions(run)[there] for run, there in zip(group.runs, at, strict=True)], axis=0)
    return Series(
        group.name, x.tolist(), [factor * column(run)[there] for run, there in zip(group.runs, at, strict=True)]
    )


def _abscissa(x: Abscissa, runs: Sequence[MeasuredRun]) -> tuple[Column, str]:
    """Where a run's values lie on the x axis, and its name."""
    if x == "bytes":
        largest = max(float(bytes_sent(run)[-1]) for run in runs)
        unit, name = next((u, n) for u, n in _UNITS if largest >= u or u == 1.0)
        how = "" if all(map(is_exact, runs)) else " (estimated)"
        return lambda run: bytes_sent(run) / unit, f"{name} sent by all clients{how}"
    if x == "simulated":
        for run in runs:
            timed = "simulated_seconds" in run.history.columns
            require(timed, f'{run.source}: the run has no simulated time (clock.name = "seconds"): use --x rounds')
        longest = max(float(run.history["simulated_seconds"][-1]) for run in runs)
        unit, name = next((u, n) for least, u, n in _SPANS if longest >= least)
        return lambda run: run.history["simulated_seconds"] / unit, f"simulated {name}"
    if x == "seconds":
        for run in runs:
            require("seconds" in run.history.columns, f"{run.source}: the history has no seconds: use --x rounds")
        return lambda run: run.history["seconds"], "seconds"
    return lambda run: run.history["round"], "round"


def _final(per_model: dict[str, _Drawn], score: str, x: Abscissa, facts: str, width: float) -> Chart:
    factor, x_name = _unit(score)
    values = {
        model: {group.name: [factor * drawn.final(run) for run in group.runs] for group in drawn.groups}
        for model, drawn in per_model.items()
    }
    rows = _sorted(values, descending=not score.endswith("loss"))
    series = [
        Series.by_x(_words(model) or "all", [rows.index(name) for name in of], list(of.values()))
        for model, of in values.items()
    ]
    title = _words(next(iter(values))) if len(values) == 1 else ""
    panel = _scaled([Panel(title, series, "", x_name)], score)[0]
    rounds = max(run.history.last["round"] for drawn in per_model.values() for run in drawn.runs)
    facts += f" Scores are means over the last {min(TAIL, rounds):g} rounds."
    if _any_diverged(per_model):
        facts += " There is no mean where a seed diverged."
    return dots(rows, panel, facts, width)


def _any_diverged(per_model: dict[str, _Drawn]) -> bool:
    return any(drawn.diverged(run) for drawn in per_model.values() for run in drawn.runs)


def _sorted(values: dict[str, dict[str, list[float]]], descending: bool) -> list[str]:
    """The best first, by the first model that has them; those that diverged last."""
    first: dict[str, float] = {}
    for of in values.values():
        for name, scores in of.items():
            mean = float(np.mean(scores))
            first.setdefault(name, (-mean if descending else mean) if np.isfinite(mean) else np.inf)
    return sorted(first, key=first.__getitem__)


def _scaled(panels: list[Panel], score: str) -> list[Panel]:
    """Losses of different orders of magnitude on a logarithmic axis."""
    if not score.endswith("loss"):
        return panels
    every = np.concatenate([spread(series).mean.ravel() for panel in panels for series in panel.series])
    known = every[np.isfinite(every)]
    if not known.size or known.min() <= 0 or known.max() / known.min() < _LOGARITHMIC:
        return panels
    return [Panel(p.title, p.series, p.y, p.x, log=True) for p in panels]


def _unit(score: str) -> tuple[float, str]:
    return (100.0, f"{_words(score)}, %") if score.endswith("accuracy") else (1.0, _words(score))


def _words(name: str) -> str:
    return name.replace("_", " ")


# caption -----------------------------------------------------------------------------------------------------
def _facts(runs: Sequence[MeasuredRun]) -> str:
    """Data set, clients, availability, rounds, seeds and rates, as far as the runs say them."""
    parts = [_joined(_part(run, "task") for run in runs)]
    clients = sorted({run.config.get("task", {}).get("clients") for run in runs} - {None})
    parts.append(f"{_range(clients)} clients" if clients else "")
    availability = _joined(_part(run, "availability") for run in runs)
    parts.append(f"{availability} availability" if availability else "")
    parts.append(f"{_range(sorted({run.history.last['round'] for run in runs}))} rounds")
    seeds = sorted({run.seed for run in runs})
    parts.append(f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}")
    rates = sorted({float(run.config["local"]["lr"]) for run in runs})
    parts.append(f"local rate{'s' * (len(rates) > 1)} {_range(rates)}")
    return ", ".join(filter(None, parts)) + "."


def _part(run: MeasuredRun, section: str) -> str:
    """The name of a task or an availability, and of its file."""
    values = run.config.get(section, {})
    name = str(values.get("name", "")).rpartition(":")[2]
    file = values.get("file")
    return f"{name} {Path(file).name}" if isinstance(file, str) and file else name


def _joined(names: Iterable[str]) -> str:
    return " and ".join(dict.fromkeys(filter(None, names)))


def _range(values: Sequence[float]) -> str:
    ends = dict.fromkeys(f"{value:g}" for value in (values[0], values[-1]))
    return " to ".join(ends)
