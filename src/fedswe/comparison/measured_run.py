"""Runs that are read from directories or results, their groups and names, and the table of their scores:

run                           the number of the run in the list
name, seed                    the group of runs that differ in their seed only, and the seed
model, score                  as in fedswe.results.table; accuracies in percent
value, diverged               the mean over the last rounds, and whether the run diverged
round, curve                  the evaluations; infinite from the first sign on that the run diverged
period                        the rounds over which a curve is averaged where it is drawn: those of its availability
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fedswe.comparison.compare import Comparison
from fedswe.comparison.labels import run_name, short_names
from fedswe.core.footprint import footprint
from fedswe.errors import FedsweError, mistakes_as, require, suggestion, warn
from fedswe.experiment import configuration
from fedswe.experiment.experiment import output_label
from fedswe.experiment.result import Result
from fedswe.registry import instance
from fedswe.results.history import History, divergence
from fedswe.results.run_directory import RunDirectory
from fedswe.results.table import common_scores, final_scores, headline, owner

Config = dict[str, Any]
Floats = npt.NDArray[np.float64]

_NEEDED: dict[str, Any] = {
    "seed": int, "algorithm.name": str, "availability.name": str, "task.name": str, "local.lr": int | float,
    "evaluate.model": list,
}  # fmt: skip
_NOT_COMPARED = ("seed", "threads", "record", "evaluate", "track")  # do not change what is learned, but by rounding
_LONGEST = 16  # characters of a value in a name
_LARGEST = 1e100


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

    @property
    def period(self) -> int:
        """Rounds after which its availability begins again; 0 if it does not say so, or counts no rounds."""
        found = self.config.get("availability", {}).get("period")
        timed = self.config.get("clock", {}).get("name", "rounds") != "rounds"
        return found if isinstance(found, int) and found > 0 and not timed else 0

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
        require(d, f'{self.source}: without model.safetensors the size of the model is not known: use x="rounds"')
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
        elif isinstance(source, Result):
            found.append(_read(source.directory) if source.directory else _of_result(source))
        else:
            wanted = "give directories, results of fedswe.run or of fedswe.compare"
            require(isinstance(source, str | Path), f"cannot draw {type(source).__name__}: {wanted}")
            found += _of_directory(Path(source))
    require(found, "nothing to draw: name the directory of a run or of a comparison")
    return found


def _of_comparison(comparison: Comparison) -> Iterator[MeasuredRun]:
    for (label, model), rate in comparison.chosen.items():
        for seed in comparison.seeds:
            config = {"seed": seed, "algorithm": {"name": label}, "local": {"lr": rate}}
            config |= {"evaluate": {"score": comparison.score}}
            history = comparison.histories[label, rate, seed]
            yield MeasuredRun(f"the run of {label}", config, history, comparison.models, {}, [model], label)


def _of_result(result: Result) -> MeasuredRun:
    sizes = {name: vector.numel() for name, vector in result.models.items()}
    return _checked("the result", tomllib.loads(configuration.dump(result.experiment)), result.history, sizes)


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
    from safetensors import safe_open

    for name in ("config.toml", "history.csv"):  # a pipe would be waited for
        require((path / name).is_file(), f"{path} has no {name} yet: run it first, or continue it with --resume")
    config, model, sizes = configuration.read(path / "config.toml"), path / "model.safetensors", {}
    if model.is_file():
        with mistakes_as(f"{model} is damaged"), safe_open(model, framework="numpy") as opened:
            sizes = {name: math.prod(opened.get_slice(name).get_shape()) for name in opened.keys()}  # noqa: SIM118
    found = _checked(str(path), config, RunDirectory(path).history(), sizes)
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
    require("round" in history.columns, f"{source}: the history has no rounds")
    rounds = history["round"]
    rising = np.isfinite(rounds).all() and (np.diff(rounds) > 0).all()
    require(rising, f"{source}: the rounds of the history do not rise")
    labels = list(map(output_label, models))
    return MeasuredRun(source, config, history, labels, sizes, labels)


def only(runs: Sequence[MeasuredRun], models: Sequence[str]) -> list[MeasuredRun]:
    """The runs that report one of these models, and of them these models."""
    known = list(dict.fromkeys(model for run in runs for model in run.reported))
    for name in models:
        require(name in known, f"no run was evaluated at the model {name!r}: {suggestion(name, known)}")
    narrowed = [replace(run, reported=[model for model in run.reported if model in models]) for run in runs]
    return [run for run in narrowed if run.reported]


# their scores ------------------------------------------------------------------------------------------------
def runs_table(runs: Sequence[MeasuredRun]) -> pd.DataFrame:
    """A row per run, model and score; the model of a column that belongs to none is ""."""
    rows, place = [], {run: i for i, run in enumerate(runs)}
    for model in dict.fromkeys(["", *(model for run in runs for model in run.reported)]):
        # A run may be there twice, once for each model that it is reported for.
        own = [run for run in runs if model in run.reported] if model else [*{id(r.history): r for r in runs}.values()]
        for name, of in groups_of(own).items():
            rows += [{"run": place[r], "name": name, "seed": r.seed, **row} for r in of for row in _scores(r, model)]
    return pd.DataFrame(rows)


def _scores(run: MeasuredRun, model: str) -> Iterator[dict[str, Any]]:
    history, prefix = run.history, f"{model}_" if model else ""
    for row in final_scores(history, model, run.models):
        column, factor = f"{prefix}{row['score']}", 100.0 if row["score"].endswith("accuracy") else 1.0
        curve = _drawable(history[column])
        value = float(_drawable(row["value"])) if run.rounds > 0 else math.nan
        diverged = row["diverged"] or math.isinf(value)
        if diverged:
            first, *_ = history.rows
            signs = [bool(divergence(History([first, at]), prefix or column, run.models)) for at in history.rows]
            curve[np.argmax(signs | np.isinf(curve)) :] = np.inf
        scores = {"score": row["score"], "value": factor * value, "diverged": diverged}
        scores["first"] = row["score"] == run.config.get("evaluate", {}).get("score")
        scores["period"] = run.period if model else 0
        yield {"model": model, **scores, "round": history["round"], "curve": factor * curve}


def _drawable(values: npt.ArrayLike) -> Floats:
    """Scores beyond any axis are infinite, so that means and ranges do not overflow; those below any axis are 0."""
    values = np.array(values, dtype=np.float64)
    size = np.abs(values)
    return np.where(size <= _LARGEST, np.where(size < 1 / _LARGEST, 0.0, values), np.inf)


def of_score(table: pd.DataFrame, score: str) -> pd.DataFrame:
    """The rows of a score of all models, or of a column of the history."""
    others, known = other_columns(table), scores_of(table)
    if model := owner(score, table["model"].unique()):  # server_test_accuracy
        table, score = table[table["model"] == model], score.removeprefix(f"{model}_")
    require(score in (*known, *others), f"unknown score {score!r}: {suggestion(score, [*known, *others])}")
    return table[(table["score"] == score) & ((table["model"] == "") == (score in others))]


def scores_of(table: pd.DataFrame) -> list[str]:
    """Those that all runs have for all their models, the one to read first at the beginning."""
    found = common_scores(table[table["model"] != ""], ["run", "model"])
    first = headline(found, next(iter(table["score"][table["first"]]), None))
    return sorted(found, key=lambda score: score != first)


def other_columns(table: pd.DataFrame) -> list[str]:
    """The columns of all runs that belong to no model."""
    return common_scores(table[table["model"] == ""], ["run"])


# their names -------------------------------------------------------------------------------------------------
def groups_of(runs: Sequence[MeasuredRun]) -> dict[str, list[MeasuredRun]]:
    """Runs that differ in their seed only, one per seed, by a short name that says in what they differ from others."""
    compared = [{name: part for name, part in run.config.items() if name not in _NOT_COMPARED} for run in runs]
    table = pd.json_normalize(compared, max_level=1)
    kinds = table.astype(str).groupby(list(table), dropna=False, sort=False).ngroup().tolist()
    first = [kinds.index(kind) for kind in range(max(kinds) + 1)]
    names = [runs[i].label for i in first]
    if not all(names) or len(set(names)) < len(names):  # several comparisons, or runs outside of one
        names = _names(table.iloc[first])
    shown = short_names(names)
    groups: dict[str, list[MeasuredRun]] = {}
    for kind, name in enumerate(names):
        alike = names[: kind + 1].count(name)
        name = shown[name] if alike == 1 else f"{shown[name]} ({alike})"
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


def labels_of(runs: Sequence[MeasuredRun]) -> dict[str, str]:
    """The whole label of each name. A model at a time: an algorithm may have other runs for each."""
    found: dict[str, str] = {}
    for model in dict.fromkeys(model for run in runs for model in run.reported):
        groups = groups_of([run for run in runs if model in run.reported])
        found |= {name: of[0].label or name for name, of in groups.items()}
    return found


def named(runs: Sequence[MeasuredRun], given: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """By name the one that is shown, and for the caption what the runs are and what short names stand for."""
    labels = labels_of(runs)
    for old in given.keys() - labels.keys() - {*labels.values()}:
        require(False, f"no curve is called {old}: {suggestion(old, labels)}")
    shown = {name: given.get(name, given.get(label, name)) for name, label in labels.items()}
    require(len({*shown.values()}) == len(shown), "two curves would have the same name: choose others")
    short = [f"{name}: {label}." for name, label in labels.items() if shown[name] == name != label]
    return shown, " ".join([facts_of(runs), *short])


def parts_of(runs: Sequence[MeasuredRun]) -> list[str]:
    """Their tasks and their availabilities; empty where they do not say them."""
    names = ({part_name(run, section): None for run in runs} for section in ("task", "availability"))
    return [" and ".join(filter(None, of)) for of in names]


def facts_of(runs: Sequence[MeasuredRun]) -> str:
    """Data set, clients, availability, rounds, seeds and rates, as far as the runs say them."""
    given = [run.config.get("task", {}).get("clients") for run in runs]
    clients = sorted({number for number in given if isinstance(number, int)})  # your own task may mean another thing
    seeds, rates = sorted({run.seed for run in runs}), sorted({float(run.config["local"]["lr"]) for run in runs})
    task, availability = parts_of(runs)
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
