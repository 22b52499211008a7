"""Regenerate tables and figures of the paper, beside the published numbers; finished runs are kept."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedswe.cli.arguments import Device, Jobs, On, PrecisionName, precision_named, whole_numbers
from fedswe.cli.console import RoundProgress, console, print_table
from fedswe.errors import FedsweError, require, suggestion
from fedswe_paper.profile import DEVIATIONS, Profile
from fedswe_paper.scale import SCALES, ScaleName

if TYPE_CHECKING:  # imported when they are used: the help must not import torch
    from fedswe.grid.runner import Executor
    from fedswe.grid.store import Cell
    from fedswe_paper.cell import PaperCell
    from fedswe_paper.publish import Recipe
    from fedswe_paper.results import CampaignStore
    from fedswe_paper.selection import Selection

OUT = Path("experiments/results")  # in a checkout: where the measurements of this repository are


def _recipes() -> dict[str, Recipe]:
    from fedswe_paper.claims import VERDICTS
    from fedswe_paper.coverage import COVERAGE
    from fedswe_paper.recipes import RECIPES

    return {**RECIPES, VERDICTS.name: VERDICTS, COVERAGE.name: COVERAGE}


def _complete(incomplete: str) -> list[str]:
    return [name for name in _recipes() if name.startswith(incomplete)]


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RECIPE]...", help="As in --list", autocompletion=_complete),
    ] = None,
    list_recipes: Annotated[bool, typer.Option("--list", help="List the recipes")] = False,
    profiles: Annotated[bool, typer.Option("--profiles", help="Show how the profiles differ")] = False,
    everything: Annotated[bool, typer.Option("--all", help="All of --list")] = False,
    scale: Annotated[
        ScaleName, typer.Option(help="ci (seconds), small (minutes) or full (the paper's, for a GPU)")
    ] = "small",
    profile: Annotated[Profile, typer.Option(help="released or paper; see --profiles")] = "released",
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
    precision: PrecisionName = None,
    jobs: Jobs = 0,
    on: On = "local",
    out: Annotated[Path, typer.Option(help="Directory of the results; may be shared by several processes")] = OUT,
    status: Annotated[bool, typer.Option("--status", help="Only count the runs finished, running and left")] = False,
    report: Annotated[bool, typer.Option("--report", help="Run nothing; write the reports of what is there")] = False,
) -> None:
    """Regenerate tables and figures of the paper, beside the published numbers; finished runs are kept."""
    if list_recipes or profiles:
        (_list_recipes if list_recipes else _show_profiles)()
        return
    require(bool(names) != everything, "name a recipe of fedswe reproduce --list, or --all")
    require(not (status and report), "--status and --report cannot be combined")
    require(not (bounded and report), "--bounded and --report cannot be combined: every report shows the bounded runs")
    require(
        not bounded or profile != "paper",
        "--bounded is for --profile released: the paper's text bounds every gradient anyway",
    )
    from fedswe.experiment.experiment import device_named
    from fedswe.grid.runner import Executor
    from fedswe_paper.results import CampaignStore
    from fedswe_paper.selection import Selection

    sets, times, methods = (
        tuple(dict.fromkeys(filter(None, text.split(",")))) for text in (dataset, dynamics, algorithms)
    )
    if sets == (SCALES[scale].stand_in,):
        sets = ()  # what the scale has anyway
    chosen = tuple(dict.fromkeys(whole_numbers(seeds, "--seeds")))
    asked = Selection(scale, profile, sets, times, methods, chosen, rounds)
    whole = Selection(scale, profile, sets if asked.scale.stand_in else ())
    device_named(device)
    numbers = precision_named(precision, device)
    workers = Executor(on, jobs, device)
    names = list(_recipes()) if everything else names or []
    recipes = [_recipe(name) for name in names]
    found = [cell for recipe in recipes for cell in recipe.cells(asked)]
    if not found and any(recipe.lines(whole) for recipe in recipes):
        of = ", ".join((*sets, *times, *methods))
        raise FedsweError(
            f"no run of {', '.join(names)} is of {of}: choose others with --dataset, --dynamics and --algorithms"
        )
    grid = [cell.grid_cell(device, numbers, bounded) for cell in _named(found, cells)]
    store = CampaignStore(out)
    left = [] if report else [cell for cell in grid if not store.finished(cell)]
    if status:
        running = store.running(left)
        waiting = len(left) - len(running)
        console.print(f"runs      {len(grid) - len(left)} finished, {len(running)} running, {waiting} left")
        for cell in running:
            console.print(f"running   {cell.name.partition('/')[2]}")
        return
    if grid and not report:
        console.print(f"runs      {len(grid) - len(left)} of {len(grid)} finished before, {len(left)} left")
        _run(left, store, workers)
    write_reports(names, whole, out)


def _list_recipes() -> None:
    from fedswe_paper.selection import Selection

    rows = [
        (r.name, r.number, r.title, *(str(len(r.cells(Selection(scale, "released"))) or "—") for scale in SCALES))
        for r in _recipes().values()
    ]
    print_table("recipes", ("name", "in the paper", "title", "runs: ci", "small", "full"), rows)
    for name, scale in SCALES.items():
        console.print(f"--scale {name:<6} {scale.purpose}")
    console.print("recipes share runs: a run that one recipe has finished is not repeated for another")


def _show_profiles() -> None:
    rows = []
    for d in DEVIATIONS:
        values = ("\n".join(f"{key} = {value}" for key, value in part.items()) for part in (d.paper, d.released))
        of = f" (only {', '.join(d.of)})" if d.of else ""
        rows.append((d.what + of, *values, d.why))
    print_table("profiles", ("difference", "paper", "released", "reason"), rows, lines=True)
    console.print("fedswe reproduce RECIPE --profile paper|released; released reproduces the published tables best")


def _named(cells: list[PaperCell], patterns: str) -> list[PaperCell]:
    """Each once, and only those whose name matches a pattern, if there are any."""
    cells = list(dict.fromkeys(cells))
    wanted = [pattern for pattern in patterns.split(",") if pattern]
    found = [cell for cell in cells if not wanted or any(fnmatchcase(cell.name, pattern) for pattern in wanted)]
    known = f"the first is called {cells[0].name}" if cells else "these recipes run nothing"
    require(not wanted or bool(found), f"no run matches --cells {patterns!r}: {known}")
    return found


def _recipe(name: str) -> Recipe:
    recipes = _recipes()
    if name not in recipes:
        hint = suggestion(name, list(recipes), "see fedswe reproduce --list")
        raise FedsweError(f"unknown recipe {name!r}: {hint}")
    return recipes[name]


def _run(left: list[Cell], store: CampaignStore, executor: Executor) -> None:
    from fedswe.grid.runner import run_cells

    if not left:
        return
    try:
        with RoundProgress() as progress, executor as workers:
            run_cells(left, store, workers, progress)
    except KeyboardInterrupt:
        console.print("runs      stopped; the same command continues them")
        raise
    elsewhere = store.running(left)
    if elsewhere:
        console.print(f"runs      {len(elsewhere)} are being run by another process; run the command again later")


def write_reports(names: list[str], whole: Selection, out: Path) -> None:
    """The pages of these recipes, from all runs that have ended."""
    from fedswe_paper.cell import BOUNDED
    from fedswe_paper.claims import CLAIMS
    from fedswe_paper.measurements import Measurements
    from fedswe_paper.publish import publish
    from fedswe_paper.results import load_runs, publishing

    with publishing(out):  # reads after it has waited: the last report has everything
        grid = f"{whole.scale_name}-{whole.profile}"
        measured = Measurements(load_runs(out, grid), load_runs(out, f"{grid}-{BOUNDED}"))
        for recipe in map(_recipe, names):
            page = recipe.report(whole, measured)
            claims = [claim for claim in CLAIMS if claim.in_the_paper and recipe.name in claim.recipes]
            verdicts = {claim.id: claim.verdict(whole, measured).status for claim in claims}
            if verdicts and not whole.scale.warning:  # a scale without meaning decides nothing
                linked = [f"Claim [{name}](claims.md#{name}): {status}" for name, status in verdicts.items()]
                page = replace(page, notes=[*page.notes, *linked])
                print_table("claims of the paper", ("claim", "verdict"), list(verdicts.items()))
            if page.overview:
                print_table(*page.overview)
            if page.said:
                console.print(page.said)
            console.print(f"{recipe.number:<17} {publish(recipe, page, whole, out)}")
