"""Runs as figures and reports need them: read from directories or results, grouped over seeds, and their scores."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from fedswe.comparison.labels import run_name
from fedswe.comparison.table import Comparison
from fedswe.core.footprint import footprint
from fedswe.errors import FedsweError, require, suggestion, warn
from fedswe.experiment import configuration
from fedswe.experiment.experiment import output_label
from fedswe.plotting import Panel, Series, spread
from fedswe.results.history import History, divergence
from fedswe.results.table import final, headline, owner

Config = dict[str, Any]
Floats = npt.NDArray[np.float64]
Abscissa = Literal["rounds", "seconds", "simulated", "bytes"]

_NEEDED = (
    ("algorithm", "name", str, "text"),
    ("availability", "name", str, "text"),
    ("task", "name", str, "text"),
    ("local", "lr", int | float, "a number"),
    ("evaluate", "model", list, "a list of names"),
)
_NOT_COMPARED = ("seed", "threads", "record", "evaluate", "track")  # do not change what is learned, but by rounding
_LONGEST = 16  # characters of a value in a name
_SPANS = ((2 * 86400.0, 86400.0, "days"), (2 * 3600.0, 3600.0, "hours"), (0.0, 1.0, "seconds"))  # from, unit, name
_BYTES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes"))
_LARGEST = 1e100
_LOGARITHMIC = 10.0  # losses that differ by a larger factor are drawn on a logarithmic axis


@dataclass(frozen=True, eq=False)
class MeasuredRun:
    source: str  # for messages: its directory, or what a script gave
    config: Config
    history: History
    models: tuple[str, ...]  # a comparison may report another run of the algorithm for another model
    sizes: Mapping[str, int]  # tensors of the final models, and how many numbers each has; empty: not stored
    label: str = ""  # of the algorithm in a comparison

    @property
    def seed(self) -> int:
        return int(self.config["seed"])

    @property
    def rounds(self) -> float:
        return self.history.last["round"]

    def scores(self, model: str) -> list[str]:
        """Without the name of the model, which may begin with that of another, as ema_0.9 does."""
        of = [column for column in self.history.columns if owner(column, self.models) == model]
        return [column.removeprefix(f"{model}_") for column in of]

    # of a score of a model, or of a column that belongs to no model (""), such as available ----------------------
    def values(self, score: str, model: str) -> Floats:
        """At the evaluations; infinite where they are not finite, and from the first sign on that the run diverged."""
        prefix, column = _columns(score, model)
        values, rows = _drawable(self.history[column]), self.history.rows
        lost = self.rounds > 0 and math.isinf(self.final(score, model))
        if lost or divergence(self.history, prefix, self.models):
            signs = np.array([bool(divergence(History([rows[0], row]), prefix, self.models)) for row in rows])
            values[np.argmax(signs | ~np.isfinite(values)) :] = np.inf
        return np.where(np.isfinite(values), values, np.inf)

    def final(self, score: str, model: str) -> float:
        """The mean over the last rounds; infinite if the run diverged."""
        prefix, column = _columns(score, model)
        value = float(_drawable(np.array(final(self.history, column, prefix, self.models))))
        return value if math.isfinite(value) else math.inf

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
        size = footprint(configuration.named("algorithm", self.config["algorithm"], "algorithm"), d)
        rounds, reported = history["round"], history["reported"]
        passed, before = np.diff(rounds, prepend=0.0), np.concatenate([reported[:1], reported[:-1]])
        before[rounds.searchsorted(0, side="right") :][:1] = reported[rounds > 0][:1]  # nobody reports before round 1
        reports = np.where(passed > 0, reported + np.maximum(passed - 1, 0) * (before + reported) / 2, 0.0)
        width = 8 if self.config.get("dtype") == "float64" else 4
        return np.asarray(np.cumsum(reports) * width * (size.down + size.up + size.reply))

    @property
    def has_exact_bytes(self) -> bool:
        return "bytes_sent" in self.history.columns or bool((np.diff(self.history["round"], prepend=0.0) <= 1).all())


def _columns(score: str, model: str) -> tuple[str, str]:
    """How the columns begin that tell whether a run diverged, and the column of a score."""
    return (f"{model}_", f"{model}_{score}") if model else (score, score)


def _drawable(values: Floats) -> Floats:
    """Scores beyond any axis are infinite, so that means and ranges do not overflow; those below any axis are 0."""
    size = np.abs(values)
    return np.where(size > _LARGEST, np.copysign(np.inf, values), np.where(size < 1 / _LARGEST, 0.0, values))


# reading -----------------------------------------------------------------------------------------------------
def measured_runs(sources: Iterable[Any]) -> list[MeasuredRun]:
    """The runs of run directories, comparison directories, results and comparisons."""
    found: list[MeasuredRun] = []
    for source in sources:
        if isinstance(source, str | Path):
            found += _of_directory(Path(source))
        elif isinstance(source, Comparison):
            found += _of_comparison(source)
        else:
            found.append(_of_result(source))
    require(found, "nothing to draw: name the directory of a run or of a comparison")
    return found


def _of_comparison(comparison: Comparison) -> Iterator[MeasuredRun]:
    for (label, model), rate in comparison.chosen.items():
        for seed in comparison.seeds:
            config = {"seed": seed, "algorithm": {"name": label}, "local": {"lr": rate}}
            history = comparison.histories[label, rate, seed]
            yield MeasuredRun(f"the run of {label}", config, history, (model,), {}, label)


def _of_result(result: Any) -> MeasuredRun:
    if getattr(result, "directory", None) is not None:
        return _read(Path(result.directory))
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
    found = []
    for (label, rate, seed), models in _reported(path / "compare.csv").items():
        run = _read(path / "runs" / run_name(label, rate, seed))
        found.append(replace(run, label=label, models=tuple(model for model in run.models if model in models)))
    return found


def _reported(file: Path) -> dict[tuple[str, float, int], set[str]]:
    """The runs of a finished comparison and the models that each is reported for; not those that choose a rate."""
    found: dict[tuple[str, float, int], set[str]] = {}
    try:
        table = pd.read_csv(file, dtype=str, keep_default_na=False)
        kept = table[(table["tuning"] == "false") & (table["chosen"] == "true")]
        for label, rate, seed, model in kept[["algorithm", "local_lr", "seed", "model"]].drop_duplicates().to_numpy():
            found.setdefault((label, float(rate), int(seed)), set()).add(model)
    except (OSError, KeyError, ValueError):
        raise FedsweError(f"{file} is damaged: give the command of the comparison again") from None
    return found


def _read(path: Path) -> MeasuredRun:
    for name in ("config.toml", "history.csv"):  # a pipe would be waited for
        require((path / name).is_file(), f"{path} has no {name} yet: run it first, or continue it with --resume")
    config, model = configuration.read(path / "config.toml"), path / "model.safetensors"
    try:
        history = History.from_csv((path / "history.csv").read_text(encoding="utf-8"))
    except (OSError, TypeError, ValueError):
        raise FedsweError(f"{path}/history.csv is damaged: it is not a table of numbers") from None
    found = _checked(str(path), config, history, _sizes(model))
    if not model.is_file():
        warn(f"{path} is not finished: it is drawn up to round {found.rounds:.0f}")
    return found


def _checked(source: str, config: Config, history: History, sizes: Mapping[str, int]) -> MeasuredRun:
    """The run, or one line that says what is wrong with it."""
    for section, key, kind, what in _NEEDED:
        part = config.get(section)
        require(isinstance(part, dict), f"{source}: the configuration has no section {section}")
        require(isinstance(config[section].get(key), kind), f"{source}: {section}.{key} must be {what}")
    require(isinstance(config.get("seed"), int), f"{source}: seed must be a whole number")
    named = config["evaluate"]["model"]
    valid = named and all(isinstance(name, str) for name in named)
    require(valid, f"{source}: evaluate.model must be a list of names")
    require(history.rows and "round" in history.columns, f"{source}: the history has no rounds")
    rounds = history["round"]
    rising = np.isfinite(rounds).all() and (np.diff(rounds) > 0).all()
    require(rising, f"{source}: the rounds of the history do not rise")
    return MeasuredRun(source, config, history, tuple(map(output_label, named)), sizes)


def _sizes(file: Path) -> dict[str, int]:
    """The number of elements of each tensor of a safetensors file, from its header."""
    from safetensors import SafetensorError, safe_open

    if not file.is_file():
        return {}
    try:
        with safe_open(file, framework="numpy") as opened:
            return {name: math.prod(opened.get_slice(name).get_shape()) for name in opened.keys()}  # noqa: SIM118
    except (OSError, SafetensorError):
        raise FedsweError(f"{file} is damaged: it cannot be read as a safetensors file") from None


# groups ------------------------------------------------------------------------------------------------------
def groups_of(runs: Sequence[MeasuredRun]) -> dict[str, list[MeasuredRun]]:
    """Runs that differ in their seed only, one per seed, by a name that says in what they differ from the others."""
    flat = [_flat(run.config) for run in runs]
    found: dict[str, list[int]] = {}
    for i, values in enumerate(flat):
        found.setdefault(json.dumps(values, sort_keys=True, default=str), []).append(i)
    first = [members[0] for members in found.values()]
    names = [runs[i].label for i in first]
    if not all(names) or len(set(names)) < len(names):  # several comparisons, or runs outside of one
        names = [_name(flat[i], flat) for i in first]
    groups: dict[str, list[MeasuredRun]] = {}
    for i, members in enumerate(found.values()):
        alike = names[: i + 1].count(names[i])
        name = names[i] if alike == 1 else f"{names[i]} ({alike})"
        kept: dict[int, MeasuredRun] = {}
        for run in (runs[j] for j in members):
            if kept.setdefault(run.seed, run) is not run:
                warn(f"two runs of {name} have seed {run.seed}: {run.source} is left out")
        groups[name] = [kept[seed] for seed in sorted(kept)]
    return groups


def _flat(config: Config) -> Config:
    """section.key of every value that is compared; 1 and 1.0 are the same value."""
    values: Config = {}
    for name, part in config.items():
        if name not in _NOT_COMPARED:
            values |= {f"{name}.{key}": of for key, of in part.items()} if isinstance(part, dict) else {name: part}
    return {key: float(of) if type(of) is int and abs(of) < 2**53 else of for key, of in values.items()}


def _name(own: Config, every: Sequence[Config]) -> str:
    """The algorithm, and each value in which runs of the same algorithm (availability, task) differ."""
    parts = [own["algorithm.name"].rpartition(":")[2]]
    for key, value in own.items():
        section = key.rpartition(".")[0]
        named = f"{section}.name" if section in ("availability", "clock", "task") else "algorithm.name"
        if key == "algorithm.name":
            continue
        if key == named:  # another task or availability is named without its parameters
            if any(other.get(key) != value for other in every):
                parts.append(str(value).rpartition(":")[2])
        elif any(other.get(named) == own.get(named) and other.get(key) != value for other in every):
            text = f"{value:g}" if isinstance(value, float) else str(value)
            parts.append(f"{key.removeprefix('algorithm.')}={text if len(text) <= _LONGEST else f'{text[:15]}…'}")
    return " ".join(parts)


def models_of(runs: Sequence[MeasuredRun], asked: Sequence[str] = ()) -> list[str]:
    known = list(dict.fromkeys(model for run in runs for model in run.models))
    for name in asked:
        require(name in known, f"no run was evaluated at the model {name!r}: {suggestion(name, known)}")
    return [model for model in known if not asked or model in asked]


def scores_of(runs: Sequence[MeasuredRun], models: Sequence[str]) -> list[str]:
    """Those that all runs have for all these models, the one to read first at the beginning."""
    each = [run.scores(model) for run in runs for model in run.models if model in models]
    found = [name for name in each[0] if all(name in of for of in each)] if each else []
    return sorted(found, key=lambda name: name != headline(found))


def other_columns(runs: Sequence[MeasuredRun]) -> list[str]:
    """The columns of all runs that belong to no model."""
    every = [column for column in runs[0].history.columns if column != "round" and not owner(column, models_of(runs))]
    return [column for column in every if all(column in run.history.columns for run in runs)]


def by_model(runs: Sequence[MeasuredRun], models: Sequence[str], score: str) -> dict[str, dict[str, list[MeasuredRun]]]:
    """By model, the groups of the runs that have this score of it; by "" if it is a column that belongs to none."""
    if all(score in run.history.columns for run in runs):
        return {"": groups_of(list({id(run.history): run for run in runs}.values()))}  # a run may be there per model
    known = scores_of(runs, models)
    require(score in known, f"unknown score {score!r}: {suggestion(score, [*known, *other_columns(runs)])}")
    return {model: groups_of([run for run in runs if model in run.models]) for model in models}


# what is drawn -----------------------------------------------------------------------------------------------
def panels_of(runs: Sequence[MeasuredRun], models: Sequence[str], score: str, x: Abscissa = "rounds") -> list[Panel]:
    """The curves of a score, a panel per model; losses of different orders of magnitude on a logarithmic axis."""
    at, x_name = abscissa(x, runs)
    panels = [
        Panel(words(model), [_series(name, of, score, model, at) for name, of in groups.items()], y_name(score), x_name)
        for model, groups in by_model(runs, models, score).items()
    ]
    return [replace(panel, log=is_log(score, panels)) for panel in panels]


def _series(name: str, runs: Sequence[MeasuredRun], score: str, model: str, at: Mapping[MeasuredRun, Floats]) -> Series:
    """At the evaluated rounds that all seeds have."""
    common = sorted(set.intersection(*(set(run.history["round"].tolist()) for run in runs)))
    require(common, f"the runs of {name} have no evaluated round in common: draw them one by one")
    kept = [np.isin(run.history["round"], common) for run in runs]
    x = np.mean([at[run][rows] for run, rows in zip(runs, kept, strict=True)], axis=0)
    seeds = [factor(score) * run.values(score, model)[rows] for run, rows in zip(runs, kept, strict=True)]
    return Series(name, x.tolist(), seeds)


def is_log(score: str, panels: Sequence[Panel]) -> bool:
    every = np.concatenate([spread(series).mean for panel in panels for series in panel.series])
    known = every[np.isfinite(every)]
    positive = score.endswith("loss") and known.size and known.min() > 0
    return bool(positive and known.max() / known.min() >= _LOGARITHMIC)


def finals_of(groups: Mapping[str, Sequence[MeasuredRun]], score: str, model: str) -> pd.DataFrame:
    """The final scores, a row per seed and a column per name, as fedswe.results.table takes them."""
    of = {name: {run.seed: factor(score) * run.final(score, model) for run in runs} for name, runs in groups.items()}
    return pd.DataFrame({name: pd.Series(values, dtype=float) for name, values in of.items()})


def abscissa(x: Abscissa, runs: Sequence[MeasuredRun]) -> tuple[dict[MeasuredRun, Floats], str]:
    """Where the values of runs lie on the x axis, and its name."""
    if x == "bytes":
        sent = {run: run.bytes_sent() for run in runs}
        largest = max(float(at[-1]) for at in sent.values())
        unit, name = next((unit, name) for unit, name in _BYTES if largest >= unit or unit == 1.0)
        how = "" if all(run.has_exact_bytes for run in runs) else " (estimated)"
        return {run: at / unit for run, at in sent.items()}, f"{name} sent by all clients{how}"
    column = {"rounds": "round", "seconds": "seconds", "simulated": "simulated_seconds"}[x]
    why = "the history has no seconds" if x == "seconds" else 'the run has no simulated time (clock.name = "seconds")'
    for run in runs:
        require(column in run.history.columns, f"{run.source}: {why}: use --x rounds")
    places = {run: run.history[column] for run in runs}
    if x != "simulated":
        return places, column
    longest = max(float(at[-1]) for at in places.values())
    unit, name = next((unit, name) for least, unit, name in _SPANS if longest >= least)
    return {run: at / unit for run, at in places.items()}, f"simulated {name}"


def factor(score: str) -> float:
    """Accuracies are shown in percent."""
    return 100.0 if score.endswith("accuracy") else 1.0


def y_name(score: str) -> str:
    return f"{words(score)}, %" if score.endswith("accuracy") else words(score)


def words(name: str) -> str:
    return name.replace("_", " ")


def facts_of(runs: Sequence[MeasuredRun]) -> str:
    """Data set, clients, availability, rounds, seeds and rates, as far as the runs say them."""
    given = [run.config.get("task", {}).get("clients") for run in runs]
    clients = sorted({number for number in given if isinstance(number, int)})  # your own task may mean another thing
    seeds, rates = sorted({run.seed for run in runs}), sorted({float(run.config["local"]["lr"]) for run in runs})
    task, availability = (
        " and ".join(dict.fromkeys(filter(None, (part_name(run, section) for run in runs))))
        for section in ("task", "availability")
    )
    parts = [
        task,
        f"{_range(clients)} clients" if clients else "",
        f"{availability} availability" if availability else "",
        f"{_range(sorted({run.rounds for run in runs}))} rounds",
        f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}",
        f"local rate{'s' * (len(rates) > 1)} {_range(rates)}",
    ]
    return ", ".join(filter(None, parts)) + "."


def part_name(run: MeasuredRun, section: str) -> str:
    """The name of a task or an availability, and of its file."""
    values = run.config.get(section, {})
    name, file = str(values.get("name", "")).rpartition(":")[2], values.get("file")
    return f"{name} {Path(file).name}" if isinstance(file, str) and file else name


def _range(values: Sequence[float]) -> str:
    return " to ".join(dict.fromkeys(f"{value:g}" for value in (values[0], values[-1])))
