"""What figures and reports show of runs: groups over seeds, scores of each model, positions on the x axis, facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from fedswe.clock.timed import COLUMNS
from fedswe.errors import require, suggestion
from fedswe.figures.groups import Group, groups_of
from fedswe.figures.measured import MeasuredRun
from fedswe.figures.traffic import bytes_sent, is_exact
from fedswe.plotting import Panel, Series, spread
from fedswe.results.history import History, Tally, divergence
from fedswe.results.table import has_diverged, headline, tail_score

Abscissa = Literal["rounds", "seconds", "simulated", "bytes"]
Column = Callable[[MeasuredRun], npt.NDArray[np.float64]]

_SPANS = ((2 * 86400.0, 86400.0, "days"), (2 * 3600.0, 3600.0, "hours"), (0.0, 1.0, "seconds"))  # from, unit, name
_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes"))
_LARGEST = 1e100
_LOGARITHMIC = 10.0  # losses that differ by a larger factor are drawn on a logarithmic axis
_OF_ANY_MODEL = ("round", "seconds", *Tally().columns(), *COLUMNS)  # columns that a diverged model does not change


@dataclass(frozen=True)
class Drawn:
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


def models_of(runs: Sequence[MeasuredRun], asked: Sequence[str]) -> list[str]:
    known = list(dict.fromkeys(model for run in runs for model in run.models))
    for name in asked:
        require(name in known, f"no run was evaluated at the model {name!r}: {suggestion(name, known)}")
    return [model for model in known if not asked or model in asked]


def headline_of(runs: Sequence[MeasuredRun], models: Sequence[str]) -> str:
    """As in the table of a comparison."""
    found = headline(scores_of(runs, models))
    columns = ", ".join(runs[0].history.columns)
    require(found, f"the runs have no score in common: choose a column with --y ({columns})")
    return str(found)


def scores_of(runs: Sequence[MeasuredRun], models: Sequence[str]) -> list[str]:
    """Those that all runs have for all these models."""
    each = [run.scores(model) for run in runs for model in run.models if model in models]
    return [name for name in each[0] if all(name in of for of in each)] if each else []


def groups_by_model(runs: Sequence[MeasuredRun], models: Sequence[str], score: str) -> dict[str, Drawn]:
    """By the name of a panel, what it shows."""
    if all(score in run.history.columns for run in runs):  # a column that belongs to no model, such as available
        return {"": Drawn(groups_of(_distinct(runs)), score, score if score in _OF_ANY_MODEL else "")}
    known = scores_of(runs, models)
    require(score in known, f"unknown score {score!r}: {suggestion(score, [*known, *other_columns(runs)])}")
    return {
        model: Drawn(groups_of([run for run in runs if model in run.models]), f"{model}_{score}", f"{model}_")
        for model in models
    }


def _drawable(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Scores beyond any axis are infinite, so that means and ranges do not overflow; those below any axis are 0."""
    size = np.abs(values)
    return np.where(size > _LARGEST, np.copysign(np.inf, values), np.where(size < 1 / _LARGEST, 0.0, values))


def _distinct(runs: Sequence[MeasuredRun]) -> list[MeasuredRun]:
    """A result of `compare` has a run once for every model."""
    return list({id(run.history): run for run in runs}.values())


def other_columns(runs: Sequence[MeasuredRun]) -> list[str]:
    of_models = tuple(f"{model}_" for run in runs for model in run.models)
    return [c for c in runs[0].history.columns if not c.startswith(of_models) and c != "round"]


def series_of(group: Group, column: Column, positions: Column, factor: float) -> Series:
    """The evaluated rounds that all seeds of a group have."""
    common = sorted(set.intersection(*(set(run.history["round"].tolist()) for run in group.runs)))
    require(common, f"the runs of {group.name} have no evaluated round in common: draw them one by one")
    at = [np.isin(run.history["round"], common) for run in group.runs]
    x = np.mean([positions(run)[there] for run, there in zip(group.runs, at, strict=True)], axis=0)
    return Series(
        group.name, x.tolist(), [factor * column(run)[there] for run, there in zip(group.runs, at, strict=True)]
    )


def abscissa(x: Abscissa, runs: Sequence[MeasuredRun]) -> tuple[Column, str]:
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


def scaled(panels: list[Panel], score: str) -> list[Panel]:
    """Losses of different orders of magnitude on a logarithmic axis."""
    if not score.endswith("loss"):
        return panels
    every = np.concatenate([spread(series).mean.ravel() for panel in panels for series in panel.series])
    known = every[np.isfinite(every)]
    if not known.size or known.min() <= 0 or known.max() / known.min() < _LOGARITHMIC:
        return panels
    return [Panel(p.title, p.series, p.y, p.x, log=True) for p in panels]


def unit_of(score: str) -> tuple[float, str]:
    return (100.0, f"{words(score)}, %") if score.endswith("accuracy") else (1.0, words(score))


def words(name: str) -> str:
    return name.replace("_", " ")


# in words ----------------------------------------------------------------------------------------------------
def facts_of(runs: Sequence[MeasuredRun], shown: Callable[[str], str] = str) -> str:
    """Data set, clients, availability, rounds, seeds and rates, as far as the runs say them; `shown` writes names."""
    parts = [_joined(shown(_part(run, "task")) for run in runs)]
    given = [run.config.get("task", {}).get("clients") for run in runs]
    clients = sorted({number for number in given if isinstance(number, int)})  # your own task may mean another thing
    parts.append(f"{_range(clients)} clients" if clients else "")
    availability = _joined(shown(_part(run, "availability")) for run in runs)
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
