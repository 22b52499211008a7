"""The command `fedswe compare`: run several algorithms with several seeds and print a table of their scores."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from fedswe.cli.arguments import Jobs, Json, On, Out, Settings, directory, numbers, split, whole_numbers
from fedswe.cli.console import RoundProgress, console, print_json, print_table
from fedswe.errors import FedsweError, warn
from fedswe.registry import names
from fedswe.results.files import write_whole

if TYPE_CHECKING:
    from fedswe.comparison.compare import Comparison

_PLAN = ".compare-plan"  # in a directory that was not named, until its comparison is finished: what is compared


def compare_command(
    settings: Settings = None,
    algorithms: Annotated[
        str, typer.Option(help="Comma-separated names, with parameters after colons: fedswe:k=10,fedavg; or all")
    ] = "all",
    seeds: Annotated[str, typer.Option(help="Comma-separated seeds")] = "3,4,6",
    tune: Annotated[str, typer.Option(help="Local rates to choose from for each algorithm; empty: use local.lr")] = "",
    tuning_seed: Annotated[int | None, typer.Option(help="The seed for that, not in --seeds; default: 1 or 0")] = None,
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
    from fedswe.comparison.labels import in_sweep, labelled, split_labels
    from fedswe.experiment.configuration import dump, read, recorded
    from fedswe.figures import draw_comparison
    from fedswe.report import write_report

    file, overrides = split(settings or [])
    labels = names("algorithm") if algorithms == "all" else split_labels(algorithms)
    table = read(file, overrides)
    _refuse_ignored(overrides, table, labels)
    experiments = {label: labelled(table, label) for label in labels}
    experiments = {in_sweep(label, value.algorithm, labels): value for label, value in experiments.items()}
    rates, chosen_seeds = numbers(tune, "--tune"), whole_numbers(seeds, "--seeds")
    each = max(value.rounds for value in experiments.values()) if experiments else 1
    tuning = each * len(experiments) * len(rates)

    def shown(done: int, total: int) -> None:  # in runs, by their rounds: several are trained at once
        number = min(done // each + 1, total // each)
        watch(done, total, words=f"{'tuning, ' * (done < tuning)}run {number} of {total // each}")

    kept = [(label, dump(value), recorded(value)) for label, value in experiments.items()]
    with _continued(out, sha256(repr((kept, chosen_seeds, rates, tuning_seed, tune_by)).encode()).hexdigest()) as place:
        if out is None and (place / "runs").is_dir() and not as_json:
            console.print(f"continues {place}")
        with warnings.catch_warnings(record=True) as caught, RoundProgress(quiet=as_json) as watch:
            result = compare(
                experiments, seeds=chosen_seeds, tune=rates, tuning_seed=tuning_seed, tune_by=tune_by, out=place,
                jobs=jobs, on=on, watch=shown,
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
        if not as_json:
            _print(result, rates, tune_by)
        for of in caught:  # below the table
            warnings.showwarning(of.message, of.category, of.filename, of.lineno)
        if as_json:
            reached = {} if target is None else {"target": target, "to_target": result.to_target(target)}
            print_json({**result.to_json(), **reached, "directory": str(place)})
            return
        if target is not None and result.headline is not None:
            _print_target(result, target)
        missing = "no figures" + ": they need fedswe[plot]" * (result.headline is not None)
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
def _continued(out: Path | None, plan: str) -> Iterator[Path]:
    """`out`, or the newest directory in which this plan was stopped, or else a new one."""
    left = [file.parent for file in Path("runs").glob(f"[0-9]*-compare/{_PLAN}") if file.read_text() == plan]
    newest = max(left, key=lambda path: int(path.name.partition("-")[0]), default=None)
    with directory(out or newest, "compare") as place:
        try:
            if out is None:
                write_whole(place / _PLAN, plan)
            yield place
        except KeyboardInterrupt:
            if (place / "runs").is_dir():
                console.print(f"stopped   the same command continues in {place}")
            raise
        finally:
            if not (place / "runs").is_dir() or (place / "compare_summary.csv").is_file():  # nothing to continue
                (place / _PLAN).unlink(missing_ok=True)


def _print(result: Comparison, rates: list[float], tune_by: str) -> None:
    """The table, sorted by the first model; the best of each model, and those level with it, are marked."""
    from fedswe.comparison.compare import tuning_score
    from fedswe.comparison.measured_run import labels_of, measured_runs, of_score, runs_table
    from fedswe.report.runs import Scores
    from fedswe.results.table import TAIL, diverged_text, in_words

    if result.headline is None:
        console.print("this task has no scores: nothing to compare but the models in runs/")
        return
    by = tune_by or (tuning_score(result.score) if result.score else "training loss")
    runs = measured_runs([result])
    rows = of_score(runs_table(runs), result.headline).replace({"name": labels_of(runs)})
    seeds, several = result.seeds, len(result.seeds) > 2
    models = {model: Scores(rows[rows["model"] == model]) for model in result.models}
    first, rate = models[result.models[0]], ["local lr"] * bool(rates)
    columns, table = ["algorithm", *(word for model in models for word in (in_words(model), *rate))], []
    for label in dict.fromkeys([*first.places, *first.finals]):
        cells = [Text(label)]
        for model, scores in models.items():
            finals, near = scores.finals[label], scores.places.get(label) in ("best", "level" * several)
            deviation = f" ± {scores.written(finals.std())}" if several else ""
            text = diverged_text(finals) or "* " * near + scores.written(finals.mean()) + deviation
            cells.append(Text(text, "bold" if near else ""))
            cells += [Text(f"{result.chosen[label, model]:g}", "dim")] * bool(rates)
        table.append(cells)
    print_table(f"{in_words(first.score)}{', %' * first.score.endswith('accuracy')}", columns, table, numbers=True)
    ended = sorted(int(run.last["round"]) for (_, _, seed), run in result.histories.items() if seed in seeds)
    rounds = " to ".join(dict.fromkeys(map(str, (ended[0], ended[-1]))))  # simulated time may end some runs early
    console.print(
        ("* the best, and those that these seeds cannot tell from it; mean ± std" if several else "* the best; mean")
        + f" over seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
        + f" of the last {min(TAIL, ended[-1])} of {rounds} rounds"
        + (f"; local rate chosen from {', '.join(f'{r:g}' for r in rates)}" if rates else "")
        + (f" by {by} on another seed" if rates else "")
    )
    if first.places:
        console.print(first.sentence())


def _print_target(result: Comparison, target: float) -> None:
    from fedswe.results.table import in_words

    found, forms = result.to_target(target), {"rounds": ".1f", "simulated_seconds": ".0f"}
    shown = [column for column in forms if any(row[column] for row in found)]
    rows = [(row["algorithm"], in_words(row["model"]), *(_mean(row[c], forms[c]) for c in shown)) for row in found]
    title = f"until {in_words(str(result.headline))} {target:g}, mean over seeds"
    print_table(title, ("algorithm", "model", *map(in_words, shown)), rows)


def _mean(values: list[float | None], form: str) -> str:
    """The mean over seeds, if all of them reached the target."""
    reached = [value for value in values if value is not None]
    if len(reached) < len(values):
        return "not reached" if not reached else f"{len(reached)} of {len(values)} seeds"
    return format(sum(reached) / len(reached), form)
