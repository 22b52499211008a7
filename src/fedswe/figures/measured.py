"""Runs as figures need them: configuration, history, and for which of its models a run counts."""

from __future__ import annotations

import csv
import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from fedswe.comparison.labels import file_name, run_name
from fedswe.comparison.table import Comparison
from fedswe.errors import FedsweError, require, warn
from fedswe.experiment import configuration
from fedswe.experiment.experiment import output_label
from fedswe.figures.defaults import with_defaults
from fedswe.results.history import History

Config = dict[str, Any]


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

    def scores(self, model: str) -> list[str]:
        """The scores of a model; a column may begin with the names of two models, as ema and ema_0.9 do."""
        found = []
        for column in self.history.columns:
            owner = max((m for m in self.models if column.startswith(f"{m}_")), key=len, default=None)
            if owner == model:
                found.append(column.removeprefix(f"{model}_"))
        return found


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


# from Python -------------------------------------------------------------------------------------------------
def _of_comparison(comparison: Comparison) -> Iterator[MeasuredRun]:
    for (label, model), rate in comparison.chosen.items():
        for seed in comparison.seeds:
            config = {"seed": seed, "algorithm": {"name": label}, "local": {"lr": rate}}
            history = comparison.histories[label, rate, seed]
            yield MeasuredRun(f"the run of {label}", config, history, (model,), {}, label)


def _of_result(result: Any) -> MeasuredRun:
    directory = getattr(result, "directory", None)
    if directory is not None:
        return _read(Path(directory))
    history: Any = getattr(result, "history", None)
    experiment: Any = getattr(result, "experiment", None)
    require(
        isinstance(history, History) and experiment is not None,
        f"cannot draw {type(result).__name__}: give directories, results of fedswe.run or of fedswe.compare",
    )
    sizes = {name: vector.numel() for name, vector in result.models.items()}
    return MeasuredRun(
        "the result", *_checked("the result", tomllib.loads(configuration.dump(experiment)), history), sizes
    )


# from directories --------------------------------------------------------------------------------------------
def _of_directory(path: Path) -> list[MeasuredRun]:
    if (path / "config.toml").is_file():
        return [_read(path)]
    require(path.is_dir(), f"there is no directory {path}")
    require((path / "runs").is_dir(), f"{path} holds neither a run (config.toml) nor a comparison (runs/)")
    reported = _reported(path)
    if reported is not None:  # without the runs that only served to choose a rate
        return [
            replace(run, label=label, models=tuple(model for model in run.models if model in models))
            for run, (label, models) in ((_read(path / "runs" / name), of) for name, of in reported.items())
        ]
    warn(f"{path} is not finished: all its runs are drawn, also those that choose a rate")
    return [_read(p.parent) for p in sorted(path.glob("runs/*/history.csv"))]


def _reported(path: Path) -> dict[str, tuple[str, set[str]]] | None:
    """By the name of a run, its label and the models that a finished comparison reports it for."""
    table = next((file for name in ("compare_runs.csv", "compare.csv") if (file := path / name).is_file()), None)
    if table is None:
        return None
    found: dict[str, tuple[str, set[str]]] = {}
    try:
        with table.open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                if row.get("tuning") != "true" and row.get("chosen") != "false":
                    name = _directory_name(path, row["algorithm"], float(row["local_lr"]), int(row["seed"]))
                    found.setdefault(name, (row["algorithm"], set()))[1].add(row["model"])
    except (OSError, KeyError, TypeError, ValueError, AttributeError, csv.Error):
        raise FedsweError(f"{table} is damaged: give the command of the comparison again") from None
    return found


def _directory_name(path: Path, label: str, rate: float, seed: int) -> str:
    name = run_name(label, rate, seed)
    earlier = f"{file_name(label)}-lr{rate:g}-seed{seed}"  # earlier versions wrote six digits
    return name if (path / "runs" / name).is_dir() or not (path / "runs" / earlier).is_dir() else earlier


def _read(path: Path) -> MeasuredRun:
    for name in ("config.toml", "history.csv"):  # a pipe would be waited for
        require((path / name).is_file(), f"{path} has no {name} yet: run it first, or continue it with --resume")
    config = configuration.read(path / "config.toml")
    try:
        history = History.from_csv((path / "history.csv").read_text(encoding="utf-8"))
    except (OSError, TypeError, ValueError):
        raise FedsweError(f"{path}/history.csv is damaged: it is not a table of numbers") from None
    found = _checked(str(path), config, history)
    if not (path / "model.safetensors").is_file():
        warn(f"{path} is not finished: it is drawn up to round {history.last['round']:.0f}")
    return MeasuredRun(str(path), *found, _sizes(path / "model.safetensors"))


def _checked(source: str, config: Config, history: History) -> tuple[Config, History, tuple[str, ...]]:
    """The complete configuration, the history and the evaluated models, or one line that says what is wrong."""
    sections = ("algorithm", "availability", "task", "local", "evaluate")
    for section in sections:
        require(isinstance(config.get(section), dict), f"{source}: the configuration has no section {section}")
    for section in sections[:3]:
        require(isinstance(config[section].get("name"), str), f"{source}: {section}.name must be text")
    require(isinstance(config.get("seed"), int), f"{source}: seed must be a whole number")
    require(isinstance(config["local"].get("lr"), int | float), f"{source}: local.lr must be a number")
    named = config["evaluate"].get("model")
    require(
        isinstance(named, list) and named and all(isinstance(name, str) for name in named),
        f"{source}: evaluate.model must be a list of names",
    )
    require(history.rows and "round" in history.columns, f"{source}: the history has no rounds")
    rounds = [row["round"] for row in history.rows]
    rising = all(a < b for a, b in pairwise(rounds))
    require(rising and all(map(math.isfinite, rounds)), f"{source}: the rounds of the history do not rise")
    return with_defaults(config), history, tuple(map(output_label, named))


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
