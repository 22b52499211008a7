"""Figures of runs: their scores over rounds, time or traffic, and their final scores.

Runs are read from directories or results, and become one table, of which figures and reports are drawn:

run                           the number of the run in the list
name, seed                    the group of runs that differ in their seed only, and the seed
model, score                  as in fedswe.results.table; accuracies in percent
round, value                  at the evaluations; infinite from the first sign on that the run diverged
final                         the mean over the last rounds; infinite if the run diverged
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from fedswe.comparison.compare import Comparison
from fedswe.comparison.labels import run_name
from fedswe.core.footprint import footprint
from fedswe.errors import FedsweError, require, suggestion, warn
from fedswe.experiment import configuration
from fedswe.experiment.experiment import output_label
from fedswe.plotting import WIDTHS, Chart, Panel, Series, check_format, curves, dots, late_range, render, spread, write
from fedswe.registry import instance
from fedswe.results.history import History, divergence
from fedswe.results.table import TAIL, final, headline, owner

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Config = dict[str, Any]
Floats = npt.NDArray[np.float64]
Abscissa = Literal["rounds", "seconds", "simulated", "bytes"]

_OF_COMPARISONS: dict[Literal["curves", "final"], str] = {"curves": "compare", "final": "compare_final"}
_NEEDED: dict[str, Any] = {
    "seed": int, "algorithm.name": str, "availability.name": str, "task.name": str, "local.lr": int | float,
    "evaluate.model": list,
}  # fmt: skip
_NOT_COMPARED = ("seed", "threads", "record", "evaluate", "track")  # do not change what is learned, but by rounding
_LONGEST = 16  # characters of a value in a name
_SPANS = ((2 * 86400.0, 86400.0, "days"), (2 * 3600.0, 3600.0, "hours"), (0.0, 1.0, "seconds"))  # from, unit, name
_BYTES = ((1e9, 1e9, "GB"), (1e6, 1e6, "MB"), (1e3, 1e3, "kB"), (0.0, 1.0, "bytes"))
_LARGEST = 1e100
_LOGARITHMIC = 10.0  # losses that differ by a larger factor are drawn on a logarithmic axis


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
        for run in (run for run in runs if run.rounds <= 0):  # the model before the first round has no final score
            warn(f"{run.source} was not evaluated after round 0: it has no final score, and is left out")
        runs = [run for run in runs if run.rounds > 0]
        require(runs, "no run was evaluated after round 0: there are no final scores")
    shown = models_of(runs, [models] if isinstance(models, str) else models)
    drawn = [run for run in runs if set(run.reported) & set(shown)]
    table = table_of(drawn, shown)
    scores, columns = scores_of(table), ", ".join(runs[0].history.columns)
    require(y or scores, f"the runs have no score in common: choose a column with --y ({columns})")
    score = y or scores[0]
    if kind == "curves":
        chart = _curves(drawn, table, score, x, WIDTHS[size])
    else:
        chart = _final(drawn, of_score(table, score), score, WIDTHS[size])
    figure = render(chart.draw, chart.size)
    write(figure, *paths)
    return figure


def draw_comparison(directory: Path) -> None:
    """The figures of a comparison, beside its tables: compare has the curves, compare_final the final scores."""
    for kind, name in _OF_COMPARISONS.items():
        plot(directory, kind=kind, out=[directory / f"{name}.png", directory / f"{name}.svg"])


def _curves(runs: Sequence[MeasuredRun], table: pd.DataFrame, score: str, x: Abscissa, width: float) -> Chart:
    panels, facts = panels_of(of_score(table, score), score, *abscissa(x, runs)), facts_of(runs)
    facts += " Bytes count both directions." * (x == "bytes")
    facts += f" The {'times' if x == 'simulated' else x} are means over seeds." * (x != "rounds")
    if any(np.isinf(np.asarray(series.seeds)[:, -1]).any() for panel in panels for series in panel.series):
        facts += " A curve ends where one of its seeds diverged."
    return curves(panels, note=facts, width=width, y_range=late_range(panels))


def _final(runs: Sequence[MeasuredRun], rows: pd.DataFrame, score: str, width: float) -> Chart:
    """A row per name, the best first by the first model that has it; those that diverged last."""
    finals = {str(model): finals_of(of) for model, of in rows.groupby("model", sort=False)}
    means = pd.concat([of.mean() for of in finals.values()]) * (1.0 if score.endswith("loss") else -1.0)
    worth = means[~means.index.duplicated()].replace(-np.inf, np.inf)
    names = worth.sort_values(kind="stable").index.tolist()
    series = [
        Series.by_x(words(model) or "all", list(map(names.index, of)), [of[name].dropna().tolist() for name in of])
        for model, of in finals.items()
    ]
    panel = Panel(words(next(iter(finals))) if len(finals) == 1 else "", series, "", y_name(score))
    facts = f"{facts_of(runs)} Scores are means over the last {min(TAIL, max(run.rounds for run in runs)):g} rounds."
    if np.isinf(rows["final"]).any():
        facts += " There is no mean where a seed diverged."
    return dots(names, replace(panel, log=is_log(score, [panel])), facts, width)


# runs --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class MeasuredRun:
    source: str  # for messages: its directory, or what a script gave
    config: Config
    history: History
    models: Sequence[str]
    sizes: Mapping[str, int]  # tensors of the final models, and how many numbers each has; empty: not stored
    reported: Sequence[str]  # models; a comparison may report another run of the algorithm for another model
    label: str = ""  # of the algorithm in a comparison

    @property
    def seed(self) -> int:
        return int(self.config["seed"])

    @property
    def rounds(self) -> float:
        return self.history.last["round"]

    def bytes_sent(self) -> Floats:
        """Up and down, by all clients together, until each evaluated round; a run with simulated time has counted them.

        The history has the number of reports in evaluated rounds only. Between two of them it is taken to be the
        mean of both, so the sum is exact if every round was evaluated, and an estimate otherwise.
        """
        history = self.history
        if "bytes_sent" in history.columns:
            return history["bytes_sent"]
        require("reported" in history.columns, f"{self.source}: the history does not say how many clients reported")
        # The vector of the trained parameters, or the tensors that it consists of.
        d = self.sizes.get(self.models[0]) or sum(
            n for name, n in self.sizes.items() if name.startswith(f"{self.models[0]}.")
        )
        require(d, f"{self.source}: without model.safetensors the size of the model is not known: use --x rounds")
        size = footprint(instance("algorithm", self.config["algorithm"], "algorithm"), d)
        rounds, reported = history["round"], history["reported"]
        passed, before = np.diff(rounds, prepend=0.0), np.concatenate([reported[:1], reported[:-1]])
        before[rounds.searchsorted(0, side="right") :][:1] = reported[rounds > 0][:1]  # nobody reports before round 1
        reports = np.where(passed > 0, reported + np.maximum(passed - 1, 0) * (before + reported) / 2, 0.0)
        width = 8 if self.config.get("dtype") == "float64" else 4
        return np.asarray(np.cumsum(reports) * width * (size.down + size.up + size.reply))


def measured_runs(sources: Iterable[Any]) -> list[MeasuredRun]:
    """The runs of run directories, comparison directories, results and comparisons."""
    found: list[MeasuredRun] = []
    for source in sources:
        if isinstance(source, Comparison):
            found += _of_comparison(source)
        elif isinstance(source, str | Path):
            found += _of_directory(Path(source))
        elif getattr(source, "directory", None) is not None:
            found.append(_read(Path(source.directory)))
        else:
            found.append(_of_result(source))
    require(found, "nothing to draw: name the directory of a run or of a comparison")
    return found


def _of_comparison(comparison: Comparison) -> Iterator[MeasuredRun]:
    for (label, model), rate in comparison.chosen.items():
        for seed in comparison.seeds:
            config = {"seed": seed, "algorithm": {"name": label}, "local": {"lr": rate}}
            history = comparison.histories[label, rate, seed]
            yield MeasuredRun(f"the run of {label}", config, history, comparison.models, {}, [model], label)


def _of_result(result: Any) -> MeasuredRun:
    history: Any = getattr(result, "history", None)
    experiment: Any = getattr(result, "experiment", None)
    require(
        isinstance(history, History) and experiment is not None,
        f"cannot draw {type(result).__name__}: give directories, results of fedswe.run or of fedswe.compare",
    )
    sizes = {name: vector.numel() for name, vector in result.models.items()}
    return _checked("the result", tomllib.loads(configuration.dump(experiment)), history, sizes)


def _of_directory(path: Path) -> list[MeasuredRun]:
    if (path / "config.toml").is_file():
        return [_read(path)]
    require(path.is_dir(), f"there is no directory {path}")
    require((path / "runs").is_dir(), f"{path} holds neither a run (config.toml) nor a comparison (runs/)")
    if not (path / "compare.csv").is_file():
        warn(f"{path} is not finished: all its runs are drawn, also those that choose a rate")
        return [_read(file.parent) for file in sorted(path.glob("runs/*/history.csv"))]
    try:
        table = pd.read_csv(path / "compare.csv", dtype=str, keep_default_na=False)
        kept = table[(table["tuning"] == "false") & (table["chosen"] == "true")]
        by_run = kept.astype({"local_lr": float, "seed": int}).groupby(["algorithm", "local_lr", "seed"], sort=False)
        reported = {key: set(models) for key, models in by_run["model"]}
    except (OSError, KeyError, ValueError):
        raise FedsweError(f"{path}/compare.csv is damaged: give the command of the comparison again") from None
    runs = [(_read(path / "runs" / run_name(*key)), str(key[0]), models) for key, models in reported.items()]
    return [replace(r, label=label, reported=[m for m in r.models if m in models]) for r, label, models in runs]


def _read(path: Path) -> MeasuredRun:
    from safetensors import SafetensorError, safe_open

    for name in ("config.toml", "history.csv"):  # a pipe would be waited for
        require((path / name).is_file(), f"{path} has no {name} yet: run it first, or continue it with --resume")
    config, model, sizes = configuration.read(path / "config.toml"), path / "model.safetensors", {}
    try:
        history = History.from_csv((path / "history.csv").read_text(encoding="utf-8"))
    except (OSError, TypeError, ValueError):
        raise FedsweError(f"{path}/history.csv is damaged: it is not a table of numbers") from None
    try:
        if model.is_file():
            with safe_open(model, framework="numpy") as opened:
                sizes = {name: math.prod(opened.get_slice(name).get_shape()) for name in opened.keys()}  # noqa: SIM118
    except (OSError, SafetensorError):
        raise FedsweError(f"{model} is damaged: it cannot be read as a safetensors file") from None
    found = _checked(str(path), config, history, sizes)
    if not model.is_file():
        warn(f"{path} is not finished: it is drawn up to round {found.rounds:.0f}")
    return found


def _checked(source: str, config: Config, history: History, sizes: Mapping[str, int]) -> MeasuredRun:
    """The run, or one line that says what is wrong with it."""
    for key, kind in _NEEDED.items():
        section, _, name = key.rpartition(".")
        part = config.get(section) if section else config
        valid = isinstance(part, dict) and isinstance(part.get(name), kind)
        require(valid, f"{source}: {key} is missing in the configuration, or of another type")
    models = config["evaluate"]["model"]
    valid = models and all(isinstance(name, str) for name in models)
    require(valid, f"{source}: evaluate.model must be a list of names")
    require(history.rows and "round" in history.columns, f"{source}: the history has no rounds")
    rounds = history["round"]
    rising = np.isfinite(rounds).all() and (np.diff(rounds) > 0).all()
    require(rising, f"{source}: the rounds of the history do not rise")
    labels = list(map(output_label, models))
    return MeasuredRun(source, config, history, labels, sizes, labels)


# their table -------------------------------------------------------------------------------------------------
def table_of(runs: Sequence[MeasuredRun], models: Sequence[str] = ()) -> pd.DataFrame:
    """The table of runs, with the scores of these models (default: all) and the columns that belong to none."""
    parts, place = [], {run: i for i, run in enumerate(runs)}
    for model in ("", *models_of(runs, models)):
        # A run may be there twice, once for each model that it is reported for.
        own = [run for run in runs if model in run.reported] if model else [*{id(r.history): r for r in runs}.values()]
        for name, of in groups_of(own).items():
            parts += [{"run": place[r], "name": name, "seed": r.seed, **row} for r in of for row in _rows(r, model)]
    table = pd.DataFrame(parts, columns=["run", "name", "seed", "model", "score", "final", "round", "value"])
    return table.explode(["round", "value"], ignore_index=True).astype({"round": float, "value": float})


def _rows(run: MeasuredRun, model: str) -> Iterator[dict[str, Any]]:
    """Each score of a model, with the evaluations as arrays."""
    history = run.history
    for column in history.columns:
        if column == "round" or owner(column, run.models) != model:
            continue
        score, prefix = column.removeprefix(f"{model}_"), f"{model}_" if model else column
        values, last = _drawable(history[column]), math.nan
        if run.rounds > 0:
            last = float(_drawable(final(history, column, prefix, run.models)))
        if math.isinf(last) or divergence(history, prefix, run.models):
            first, *_ = history.rows
            signs = [bool(divergence(History([first, row]), prefix, run.models)) for row in history.rows]
            values[np.argmax(signs | np.isinf(values)) :] = np.inf
        factor = 100.0 if score.endswith("accuracy") else 1.0
        yield {
            "model": model, "score": score, "final": factor * last,
            "round": history["round"], "value": factor * values,
        }  # fmt: skip


def _drawable(values: npt.ArrayLike) -> Floats:
    """Scores beyond any axis are infinite, so that means and ranges do not overflow; those below any axis are 0."""
    values = np.array(values, dtype=np.float64)
    size = np.abs(values)
    return np.where(size <= _LARGEST, np.where(size < 1 / _LARGEST, 0.0, values), np.inf)


def models_of(runs: Sequence[MeasuredRun], asked: Sequence[str] = ()) -> list[str]:
    known = list(dict.fromkeys(model for run in runs for model in run.reported))
    for name in asked:
        require(name in known, f"no run was evaluated at the model {name!r}: {suggestion(name, known)}")
    return [model for model in known if not asked or model in asked]


def scores_of(table: pd.DataFrame) -> list[str]:
    """Those that all runs have for all their models, the one to read first at the beginning."""
    pairs = table[table["model"] != ""].drop_duplicates(["run", "model", "score"])
    counts = pairs.groupby("score", sort=False).size()
    found = [str(score) for score in counts.index[counts == len(pairs.drop_duplicates(["run", "model"]))]]
    return sorted(found, key=lambda name: name != headline(found))


def other_columns(table: pd.DataFrame) -> list[str]:
    """The columns of all runs that belong to no model."""
    pairs = table[table["model"] == ""].drop_duplicates(["run", "score"])
    counts = pairs.groupby("score", sort=False).size()
    return [str(column) for column in counts.index[counts == pairs["run"].nunique()]]


def of_score(table: pd.DataFrame, score: str) -> pd.DataFrame:
    """The rows of a score of all models, or of a column of the history."""
    others, known = other_columns(table), scores_of(table)
    if model := owner(score, table["model"].unique()):  # server_test_accuracy
        table, score = table[table["model"] == model], score.removeprefix(f"{model}_")
    require(score in (*known, *others), f"unknown score {score!r}: {suggestion(score, [*known, *others])}")
    return table[(table["score"] == score) & ((table["model"] == "") == (score in others))]


def finals_of(rows: pd.DataFrame) -> pd.DataFrame:
    """The final scores, a row per seed and a column per name, as fedswe.results.table takes them."""
    found = rows.drop_duplicates(["name", "seed"]).pivot(index="seed", columns="name", values="final")
    return found[rows["name"].unique()]


def groups_of(runs: Sequence[MeasuredRun]) -> dict[str, list[MeasuredRun]]:
    """Runs that differ in their seed only, one per seed, by a name that says in what they differ from the others."""
    compared = [{name: part for name, part in run.config.items() if name not in _NOT_COMPARED} for run in runs]
    table = pd.json_normalize(compared, max_level=1)
    kinds = table.astype(str).groupby(list(table), dropna=False, sort=False).ngroup().tolist()
    first = [kinds.index(kind) for kind in range(max(kinds) + 1)]
    names = [runs[i].label for i in first]
    if not all(names) or len(set(names)) < len(names):  # several comparisons, or runs outside of one
        names = _names(table.iloc[first])
    groups: dict[str, list[MeasuredRun]] = {}
    for kind, name in enumerate(names):
        alike = names[: kind + 1].count(name)
        name = name if alike == 1 else f"{name} ({alike})"
        kept: dict[int, MeasuredRun] = {}
        for run in (run for run, of in zip(runs, kinds, strict=True) if of == kind):
            if kept.setdefault(run.seed, run) is not run:
                warn(f"two runs of {name} have seed {run.seed}: {run.source} is left out")
        groups[name] = [kept[seed] for seed in sorted(kept)]
    return groups


def _names(configs: pd.DataFrame) -> list[str]:
    """The algorithm, and each value in which runs of the same algorithm (availability, task) differ."""
    texts = configs.astype(str)  # of numbers with all digits
    parts = [[name.rpartition(":")[2]] for name in texts["algorithm.name"]]
    for key in (key for key in texts if key != "algorithm.name" and texts[key].nunique(dropna=False) > 1):
        section = key.rpartition(".")[0]
        named = f"{section}.name" if section in ("availability", "clock", "task") else "algorithm.name"
        differs = texts.groupby(named, dropna=False)[key].transform("nunique", dropna=False) > 1
        for part, value, told in zip(parts, configs[key], differs | (key == named), strict=True):
            if not told or value != value:
                continue
            if key == named:  # another task or availability is named without its parameters
                part.append(str(value).rpartition(":")[2])
            else:
                text = f"{value:g}" if isinstance(value, float) else str(value)
                part.append(f"{key.removeprefix('algorithm.')}={text if len(text) <= _LONGEST else f'{text[:15]}…'}")
    return [" ".join(part) for part in parts]


# what is drawn -----------------------------------------------------------------------------------------------
def panels_of(rows: pd.DataFrame, score: str, at: pd.Series[float], x_name: str) -> list[Panel]:
    """The curves of a score with these rows, a panel per model, at the evaluated rounds that all seeds have.

    Losses of different orders of magnitude have a logarithmic axis.
    """
    panels = []
    for model, of in rows.join(at, on=["run", "round"]).groupby("model", sort=False):
        series = []
        for name, part in of.groupby("name", sort=False):
            seeds = part.pivot(index="seed", columns="round", values="value").dropna(axis="columns")
            require(seeds.size, f"the runs of {name} have no evaluated round in common: draw them one by one")
            series.append(Series(str(name), part.groupby("round")["x"].mean()[seeds.columns].tolist(), seeds))
        panels.append(Panel(words(str(model)), series, y_name(score), x_name))
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
        require(not column or column in run.history.columns, f"{run.source}: {why}: use --x rounds")
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


def y_name(score: str) -> str:
    return f"{words(score)}, %" if score.endswith("accuracy") else words(score)


def words(name: str) -> str:
    return name.replace("_", " ")


def facts_of(runs: Sequence[MeasuredRun]) -> str:
    """Data set, clients, availability, rounds, seeds and rates, as far as the runs say them."""
    given = [run.config.get("task", {}).get("clients") for run in runs]
    clients = sorted({number for number in given if isinstance(number, int)})  # your own task may mean another thing
    seeds, rates = sorted({run.seed for run in runs}), sorted({float(run.config["local"]["lr"]) for run in runs})
    names = ({part_name(run, section): None for run in runs} for section in ("task", "availability"))
    task, availability = (" and ".join(filter(None, of)) for of in names)
    parts = [task, f"{_range(clients)} clients" * bool(clients), f"{availability} availability" * bool(availability)]
    parts += [f"{_range(sorted({run.rounds for run in runs}))} rounds"]
    parts += [f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"]
    parts += [f"local rate{'s' * (len(rates) > 1)} {_range(rates)}"]
    return ", ".join(filter(None, parts)) + "."


def part_name(run: MeasuredRun, section: str) -> str:
    """The name of a task or an availability, and of its file."""
    values = run.config.get(section, {})
    name, file = str(values.get("name", "")).rpartition(":")[2], values.get("file")
    return f"{name} {Path(file).name}" if isinstance(file, str) and file else name


def _range(values: Sequence[float]) -> str:
    return " to ".join(dict.fromkeys(f"{value:g}" for value in (*values[:1], *values[-1:])))
