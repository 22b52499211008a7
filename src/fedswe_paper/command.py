"""Regenerate tables and figures of the paper, beside the published numbers; finished runs are kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedswe.cli.arguments import Device, Jobs, On, PrecisionName, Track, precision_named, whole_numbers
from fedswe.cli.console import RoundProgress, console, print_json, print_table
from fedswe.core.local import Precision
from fedswe.errors import FedsweError, require, suggestion
from fedswe_paper.profile import DEVIATIONS, PROFILES
from fedswe_paper.scale import SCALES

if TYPE_CHECKING:  # imported when they are used: the help must not import torch
    from fedswe.grid.runner import Executor
    from fedswe_paper.cell import PaperCell
    from fedswe_paper.measurements import Measurements
    from fedswe_paper.recipe import Recipe
    from fedswe_paper.results import CampaignStore
    from fedswe_paper.selection import Selection

Only = Literal["", "status", "report"]
SUMMARIES = {
    "claims": "which claims of the paper hold, from what has been measured",
    "coverage": "how much of each table and figure has been measured, and what runs the rest",
}
OUT = Path("experiments/results")  # in a checkout: where the measurements of this repository are


@dataclass(frozen=True)
class Machine:
    """Where cells are run; results do not depend on it beyond the rounding of the precision."""

    device: str = "cpu"
    precision: Precision = "fp32"
    jobs: int = 0  # workers; 0: one per core, one for a GPU
    on: str = "local"
    track: tuple[str, ...] = ()  # trackers of every run
    bounded: bool = False  # every stochastic gradient bounded, unlike in the paper; such runs are kept apart

    def executor(self) -> Executor:
        from fedswe.grid.runner import Executor

        return Executor(self.on, self.jobs, self.device)


def _complete(incomplete: str) -> list[str]:
    from fedswe_paper.recipes import RECIPES

    return [name for name in (*RECIPES, *SUMMARIES) if name.startswith(incomplete)]


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RECIPE]...", help="As in --list", autocompletion=_complete),
    ] = None,
    list_recipes: Annotated[bool, typer.Option("--list", help="List the recipes")] = False,
    profiles: Annotated[bool, typer.Option("--profiles", help="Show how the profiles differ")] = False,
    everything: Annotated[bool, typer.Option("--all", help="All of --list")] = False,
    scale: Annotated[
        str, typer.Option(help="ci (seconds), small (minutes) or full (the paper's, for a GPU)")
    ] = "small",
    profile: Annotated[str, typer.Option(help="released or paper; see --profiles")] = "released",
    dataset: Annotated[str, typer.Option(help="Comma-separated: svhn, cifar10, cinic10, fashion_mnist, digits")] = "",
    dynamics: Annotated[str, typer.Option(help="Only these, e.g. sine or periodic-static")] = "",
    algorithms: Annotated[str, typer.Option(help="Only these, e.g. fedswe,fedavg")] = "",
    seeds: Annotated[str, typer.Option(help="Comma-separated or ranges, e.g. 1-5; default: those of the scale")] = "",
    rounds: Annotated[int, typer.Option(help="Instead of the rounds of the scale")] = 0,
    cells: Annotated[str, typer.Option(help="Only runs with such names, e.g. '*-k10-*,*-mifa-*'; * is any text")] = "",
    bounded: Annotated[
        bool, typer.Option("--bounded", help="Gradients bounded to a norm of 10: kept apart, in no verdict")
    ] = False,
    device: Device = "cpu",
    precision: PrecisionName = "",
    jobs: Jobs = 0,
    on: On = "local",
    track: Track = "",
    out: Annotated[Path, typer.Option(help="Directory of the results; may be shared by several processes")] = OUT,
    status: Annotated[bool, typer.Option("--status", help="Only count the runs finished, running and left")] = False,
    report: Annotated[bool, typer.Option("--report", help="Run nothing; write the reports of what is there")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --list, --profiles or --status: print one JSON document")
    ] = False,
) -> None:
    """Regenerate tables and figures of the paper, beside the published numbers; finished runs are kept."""
    require(not as_json or list_recipes or profiles or status, "--json needs --list, --profiles or --status")
    if list_recipes or profiles:
        if list_recipes:
            _list_recipes(as_json)
        else:
            _show_profiles(as_json)
        return
    if bool(names) == everything:
        raise FedsweError("name a recipe of fedswe reproduce --list, or --all")
    if status and report:
        raise FedsweError("--status and --report cannot be combined")
    if bounded and report:
        raise FedsweError("--bounded and --report cannot be combined: every report shows the bounded runs")
    if bounded and profile == "paper":
        raise FedsweError("--bounded is for --profile released: the paper's text bounds every gradient anyway")
    from fedswe_paper.recipes import RECIPES

    where = machine(device, precision, jobs, on)
    reproduce_command(
        [*RECIPES, *SUMMARIES] if everything else names or [],
        selection(scale, profile, dataset, dynamics, algorithms, seeds, rounds),
        replace(where, track=tuple(word for word in track.split(",") if word), bounded=bounded),
        out,
        "status" if status else "report" if report else "",
        tuple(pattern for pattern in cells.split(",") if pattern),
        as_json,
    )


def _list_recipes(as_json: bool) -> None:
    from fedswe_paper.recipes import RECIPES
    from fedswe_paper.selection import Selection

    counts = {
        recipe.name: {scale: len(recipe.cells(Selection(scale, "released"))) for scale in SCALES}
        for recipe in RECIPES.values()
    }
    if as_json:
        print_json(
            [{"name": r.name, "number": r.number, "title": r.title, "runs": counts[r.name]} for r in RECIPES.values()]
        )
        return
    rows = [
        (r.name, r.number, r.title, *(str(n) if n else "—" for n in counts[r.name].values())) for r in RECIPES.values()
    ]
    rows += [(name, "text", title, "—", "—", "—") for name, title in SUMMARIES.items()]
    print_table("recipes", ("name", "in the paper", "title", "runs: ci", "small", "full"), rows)
    for name, scale in SCALES.items():
        console.print(f"--scale {name:<6} {scale.purpose}")
    console.print("recipes share runs: a run that one recipe has finished is not repeated for another")


def _show_profiles(as_json: bool) -> None:
    if as_json:
        print_json([asdict(deviation) for deviation in DEVIATIONS])
        return
    rows = []
    for d in DEVIATIONS:
        values = ("\n".join(f"{key} = {value}" for key, value in part.items()) for part in (d.paper, d.released))
        of = f" (only {', '.join(d.of)})" if d.of else ""
        rows.append((d.what + of, *values, d.why))
    print_table("profiles", ("difference", "paper", "released", "reason"), rows, lines=True)
    console.print("fedswe reproduce RECIPE --profile paper|released; released reproduces the published tables best")


def selection(
    scale: str, profile: str, dataset: str, dynamics: str, algorithms: str, seeds: str, rounds: int
) -> Selection:
    """The options as a checked selection."""
    from fedswe_paper.selection import Selection

    if scale not in SCALES:
        raise FedsweError(f"unknown --scale {scale!r}: choose from {', '.join(SCALES)}")
    if profile not in PROFILES:
        raise FedsweError(f"unknown --profile {profile!r}: choose from {', '.join(PROFILES)}")
    if rounds < 0:
        raise FedsweError(f"--rounds must be 0 (those of the scale) or positive, not {rounds}")
    sets, times, methods = (
        tuple(dict.fromkeys(word for word in text.split(",") if word)) for text in (dataset, dynamics, algorithms)
    )
    return Selection(
        scale,
        profile,
        () if sets == (SCALES[scale].stand_in,) else sets,  # what the scale has anyway
        times,
        methods,
        seeds=tuple(dict.fromkeys(whole_numbers(seeds, "--seeds"))),
        rounds=rounds,
    )


def machine(device: str, precision: str, jobs: int, on: str = "local") -> Machine:
    from fedswe.experiment.experiment import device_named

    device_named(device)
    found = Machine(device, precision_named(precision, device), jobs, on)
    found.executor()  # refuses other names and numbers, before anything is run
    return found


def reproduce_command(
    names: list[str],
    asked: Selection,
    where: Machine,
    out: Path,
    only: Only,
    patterns: tuple[str, ...] = (),
    as_json: bool = False,
) -> None:
    """Run, and write the reports."""
    from fedswe_paper.cell import BOUNDED
    from fedswe_paper.measurements import Measurements
    from fedswe_paper.publish import publish
    from fedswe_paper.results import CampaignStore, load_runs, publishing

    recipes = [_recipe(name) for name in names if name not in SUMMARIES]
    store = CampaignStore(out)
    whole = replace(
        asked, datasets=asked.datasets if asked.scale.stand_in else (), dynamics=(), algorithms=(), seeds=(), rounds=0
    )
    cells = [cell for recipe in recipes for cell in recipe.cells(asked)]
    if not cells and any(recipe.lines(whole) for recipe in recipes):
        of = ", ".join((*asked.datasets, *asked.dynamics, *asked.algorithms))
        raise FedsweError(
            f"no run of {', '.join(names)} is of {of}: choose others with --dataset, --dynamics and --algorithms"
        )
    cells = _named(cells, patterns)
    if only == "status":
        _print_status(cells, store, where.bounded, as_json)
        return
    if only == "" and cells:
        _run(cells, store, where)
    with publishing(out):  # reads after it has waited: the last report has everything
        grid = f"{asked.scale_name}-{asked.profile}"
        measured = Measurements(load_runs(out, grid), load_runs(out, f"{grid}-{BOUNDED}"))
        for recipe in recipes:
            console.print(f"{recipe.number:<17} {publish(recipe, whole, measured, out)}")
        if "claims" in names:
            _claims(whole, measured, out)
        if "coverage" in names:
            _coverage(whole, measured, out)


def _named(cells: list[PaperCell], patterns: tuple[str, ...]) -> list[PaperCell]:
    """Each once, and only those whose name matches a pattern, if there are any."""
    cells = list(dict.fromkeys(cells))
    if not patterns:
        return cells
    found = [cell for cell in cells if any(fnmatchcase(cell.name, pattern) for pattern in patterns)]
    if not found:
        known = f"the first is called {cells[0].name}" if cells else "these recipes run nothing"
        raise FedsweError(f"no run matches --cells {','.join(patterns)!r}: {known}")
    return found


def _recipe(name: str) -> Recipe:
    from fedswe_paper.recipes import RECIPES

    if name not in RECIPES:
        hint = suggestion(name, [*RECIPES, *SUMMARIES], "see fedswe reproduce --list")
        raise FedsweError(f"unknown recipe {name!r}: {hint}")
    return RECIPES[name]


def _run(cells: list[PaperCell], store: CampaignStore, where: Machine) -> None:
    from fedswe.grid.runner import run_cells

    named = [cell.grid_cell(where.device, where.precision, where.bounded) for cell in cells]
    grid = [replace(cell, experiment=replace(cell.experiment, track=list(where.track))) for cell in named]
    left = [cell for cell in grid if not store.finished(cell)]
    console.print(f"runs      {len(grid) - len(left)} of {len(grid)} finished before, {len(left)} left")
    if not left:
        return
    try:
        with RoundProgress() as progress, where.executor() as workers:
            run_cells(left, store, workers, progress)
    except KeyboardInterrupt:
        console.print("runs      stopped; the same command continues them")
        raise
    elsewhere = store.running(left)
    if elsewhere:
        console.print(f"runs      {len(elsewhere)} are being run by another process; run the command again later")


def _print_status(cells: list[PaperCell], store: CampaignStore, bounded: bool, as_json: bool) -> None:
    grid = {cell: cell.grid_cell(bounded=bounded) for cell in cells}
    done = [cell for cell in cells if store.finished(grid[cell])]
    left = [cell for cell in cells if cell not in set(done)]
    claimed = {cell.name for cell in store.running([grid[cell] for cell in left])}
    running = [cell for cell in left if grid[cell].name in claimed]
    if as_json:
        waiting = [cell.name for cell in left if cell not in set(running)]
        names = {"finished": [cell.name for cell in done], "running": [cell.name for cell in running]}
        print_json({**names, "left": waiting})
        return
    console.print(f"runs      {len(done)} finished, {len(running)} running, {len(left) - len(running)} left")
    for cell in running:
        console.print(f"running   {cell.name}")


def _claims(whole: Selection, measured: Measurements, out: Path) -> None:
    from fedswe_paper.claims import judge, publish_claims, summary_rows

    judged = judge(whole, measured)
    columns = ("claim", "verdict", "holds in", "margin", "above", "s.e.", "seeds")
    rows = [
        (claim, status, where.replace(" places measured", ""), *rest)
        for claim, status, where, *rest, _ in summary_rows(judged)
    ]
    print_table("claims of the paper", columns, rows)
    if short := sum(" of " in rounds for *_, rounds in summary_rows(judged)):
        console.print(
            f"shorter runs      {short} of these come from fewer rounds than the paper has; the page says which"
        )
    if whole.scale.warning:
        console.print(f"no meaning        {whole.scale.warning}; use --scale small or full")
    console.print(f"evidence          {publish_claims(whole, judged, measured, out)}")


def _coverage(whole: Selection, measured: Measurements, out: Path) -> None:
    from fedswe_paper.coverage import coverage, publish_coverage

    rows = [
        (p.recipe.number, p.recipe.name, p.dataset, p.dynamics, f"{p.measured} of {p.needed}", str(p.shorter))
        for p in coverage(whole, measured)
    ]
    print_table("runs measured", ("in the paper", "recipe", "data", "dynamics", "runs", "shorter"), rows)
    console.print(f"what is missing   {publish_coverage(whole, measured, out)}")
