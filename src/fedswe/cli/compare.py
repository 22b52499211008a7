"""The command `fedswe compare`: run several algorithms with several seeds and print a table of their scores."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from fedswe.cli.arguments import Jobs, Json, On, Out, Settings, directory, numbers, split, whole_numbers
from fedswe.cli.console import RoundProgress, console, print_json, print_table
from fedswe.errors import FedsweError, warn
from fedswe.registry import names

if TYPE_CHECKING:
    import pandas as pd

    from fedswe.comparison.compare import Comparison


def compare_command(
    settings: Settings = None,
    algorithms: Annotated[
        str, typer.Option(help="Comma-separated names, with parameters after colons: fedswe:k=10,fedavg; or all")
    ] = "all",
    seeds: Annotated[str, typer.Option(help="Comma-separated seeds")] = "3,4,6",
    tune: Annotated[str, typer.Option(help="Local rates to choose from for each algorithm; empty: use local.lr")] = "",
    tuning_seed: Annotated[int, typer.Option(help="The seed that rates are chosen on; not reported")] = 1,
    tune_by: Annotated[
        str, typer.Option(help="The score that rates are chosen by; default: train_loss; max:SCORE for other scores")
    ] = "",
    target: Annotated[
        float | None, typer.Option(help="Also print after how many rounds (and simulated time) the score reached this")
    ] = None,
    jobs: Jobs = 0,
    on: On = "local",
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Run several algorithms on the same clients and the same availability, and print a table."""
    from fedswe.comparison.compare import compare
    from fedswe.comparison.labels import labelled, split_labels
    from fedswe.experiment.configuration import read
    from fedswe.figures import draw_comparison
    from fedswe.report import write_report

    file, overrides = split(settings or [])
    labels = names("algorithm") if algorithms == "all" else split_labels(algorithms)
    table = read(file, overrides)
    _refuse_ignored(overrides, table, labels)
    experiments = {label: labelled(table, label) for label in labels}
    rates, chosen_seeds = numbers(tune, "--tune"), whole_numbers(seeds, "--seeds")
    with directory(out, "compare") as place, _continuable(place, out):
        with RoundProgress(quiet=as_json) as watch:
            result = compare(
                experiments, seeds=chosen_seeds, rates=rates, tuning_seed=tuning_seed, tune_by=tune_by, out=place,
                jobs=jobs, on=on, watch=watch,
            )  # fmt: skip
        drawn = result.headline is not None and find_spec("matplotlib") is not None
        if drawn:
            draw_comparison(place)
        report = None
        if result.headline is not None:
            try:
                report = write_report([place])
            except FedsweError as error:  # a comparison does not fail for it
                warn(f"there is no report: {error}")
        if as_json:
            reached = {} if target is None else {"target": target, "to_target": result.to_target(target)}
            print_json({**result.to_json(), **reached, "directory": str(place)})
            return
        _print(result, rates, tune_by)
        if target is not None and result.headline is not None:
            _print_target(result, target)
        missing = "no figures" if result.headline is None else "no figures: they need fedswe[plot]"
        figures = "compare.png, compare_final.png (and .svg)" if drawn else missing
        console.print(f"results   {place}/compare.csv, compare_summary.csv, {figures}, runs/")
        if report is not None:
            console.print(f"report    {report}")


def _refuse_ignored(overrides: list[str], table: dict[str, Any], labels: list[str]) -> None:
    """Refuse overrides of a parameter of one algorithm that others would not get."""
    from fedswe.comparison.labels import parse_label
    from fedswe.experiment.configuration import DEFAULT

    for word in overrides:
        key, _, value = word.partition("=")
        if key == "algorithm.name":
            raise FedsweError(f"compare takes algorithms from --algorithms: write --algorithms {value}, not {word}")
        section = table.get("algorithm")
        owner = section.get("name", DEFAULT["algorithm"]) if isinstance(section, dict) else ""
        others = [label for label in labels if parse_label(label)[0] != owner]
        if key.startswith("algorithm.") and others:
            parameter = word.removeprefix("algorithm.")
            raise FedsweError(f"{word} would be ignored for {others[0]}: write --algorithms {others[0]}:{parameter}")


@contextmanager
def _continuable(place: Path, out: Path | None) -> Iterator[None]:
    """After an interrupt, print the command that continues."""
    try:
        yield
    except KeyboardInterrupt:
        if (place / "runs").is_dir():
            command = ["fedswe", *sys.argv[1:], *(["--out", str(place)] if out is None else [])]
            console.print(f"stopped   continue with: {shlex.join(command)}")
        raise


def _print(result: Comparison, rates: list[float], tune_by: str) -> None:
    from fedswe.results.table import TAIL, in_words

    score = result.headline
    if score is None:
        console.print("this task has no scores: nothing to compare but the models in runs/")
        return
    percent = score == "test_accuracy"
    columns = ["algorithm"]
    for model in result.models:
        columns += [in_words(model), *(["local lr"] if rates else [])]
    finals, rows = {model: (result.best(model), result.by_seed(model)) for model in result.models}, []
    for label in dict.fromkeys(label for label, _ in result.chosen):
        cells = [Text(label)]
        for model, (best, by_seed) in finals.items():
            cells.append(Text(_score(by_seed[label], percent), "bold" if label == best else ""))
            cells += [Text(f"{result.chosen[label, model]:g}", "dim")] if rates else []
        rows.append(cells)
    print_table(f"{in_words(score)}{', %' if percent else ''}", columns, rows, numbers=True)
    ended = sorted(int(run.last["round"]) for (_, _, seed), run in result.histories.items() if seed in result.seeds)
    rounds = " to ".join(dict.fromkeys(map(str, (ended[0], ended[-1]))))  # simulated time may end some runs early
    console.print(
        ("mean ± std over seeds" if len(result.seeds) > 1 else "mean for seed")
        + f" {', '.join(map(str, result.seeds))} of the last {min(TAIL, ended[-1])} of {rounds} rounds"
        + (f"; local rate chosen from {', '.join(f'{r:g}' for r in rates)}" if rates else "")
        + (f" by {tune_by or 'training loss'} on another seed" if rates else "")
    )


def _score(finals: pd.Series[float], percent: bool) -> str:
    from fedswe.results.table import diverged_text

    if text := diverged_text(finals):
        return text
    mean, std = finals.mean(), finals.std()
    parts = (f"{100 * mean:.1f}", f"{100 * std:.1f}") if percent else (f"{mean:.4g}", f"{std:.2g}")
    return " ± ".join(parts if len(finals) > 1 else parts[:1])


def _print_target(result: Comparison, target: float) -> None:
    found = result.to_target(target)
    timed = any(row["simulated_seconds"] for row in found)
    rows = [
        (row["algorithm"], row["model"].replace("_", " "), _mean(row["rounds"], ".1f"))
        + ((_mean(row["simulated_seconds"], ".0f"),) if timed else ())
        for row in found
    ]
    columns = ("algorithm", "model", "rounds", *(["simulated seconds"] if timed else []))
    print_table(f"until {str(result.headline).replace('_', ' ')} {target:g}, mean over seeds", columns, rows)


def _mean(values: list[float | None], form: str) -> str:
    """The mean over seeds, if all of them reached the target."""
    reached = [value for value in values if value is not None]
    if len(reached) < len(values):
        return "not reached" if not reached else f"{len(reached)} of {len(values)} seeds"
    return format(sum(reached) / len(reached), form)
