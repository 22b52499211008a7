"""fedswe reproduce."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, cast

from rich.console import Console
from rich.table import Table

from fedswe.cli import arguments as words
from fedswe.cli.console import RoundProgress
from fedswe.errors import FedsweError, require
from fedswe.experiment.experiment import device_named
from fedswe.grid.executor import Executor
from fedswe.grid.runner import executor, run_cells
from fedswe.grid.store import ResultStore
from fedswe_paper.cell import PaperCell, Precision
from fedswe_paper.claims import judge, publish_claims
from fedswe_paper.measurements import Measurements
from fedswe_paper.profile import DEVIATIONS, PROFILES
from fedswe_paper.publish import publish
from fedswe_paper.recipe import Recipe
from fedswe_paper.recipes import RECIPES
from fedswe_paper.results import load_runs, publishing
from fedswe_paper.scale import SCALES
from fedswe_paper.selection import Selection

_console = Console(highlight=False, soft_wrap=True)

Only = Literal["", "status", "report"]


@dataclass(frozen=True)
class Machine:
    """Where cells are run; results do not depend on it beyond the rounding of the precision."""

    device: str = "cpu"
    precision: Precision = "fp32"
    jobs: int = 0  # workers; 0: one per core, one for a GPU
    on: str = "local"

    def executor(self) -> Executor:
        return executor(self.on, self.jobs, self.device)


def list_recipes() -> None:
    table = Table("name", "in the paper", "what", "runs: ci", "small", "full", title="recipes", title_justify="left")
    for recipe in RECIPES.values():
        runs = (len(recipe.cells(Selection(scale, "released"))) for scale in SCALES)
        table.add_row(recipe.name, recipe.number, recipe.title, *(str(n) if n else "—" for n in runs))
    table.add_row("claims", "text", "which claims of the paper hold, from what has been measured", "—", "—", "—")
    _console.print(table)
    for name, scale in SCALES.items():
        _console.print(f"--scale {name:<6} {scale.purpose}")
    _console.print("recipes share runs: what one has run, the others need not")


def show_profile() -> None:
    """The two readings of the paper side by side."""
    table = Table("what", "paper", "released", "why", title="profiles", title_justify="left", show_lines=True)
    for d in DEVIATIONS:
        values = ("\n".join(f"{key} = {value}" for key, value in part.items()) for part in (d.paper, d.released))
        of = f" (only {', '.join(d.of)})" if d.of else ""
        table.add_row(d.what + of, *values, d.why)
    _console.print(table)
    _console.print("fedswe reproduce RECIPE --profile paper|released; released reproduces the published tables best")


def selection(
    scale: str, profile: str, dataset: str, dynamics: str, algorithms: str, seeds: str, rounds: int
) -> Selection:
    """What the options ask for, checked."""
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
        seeds=tuple(dict.fromkeys(words.whole_numbers(seeds, "--seeds"))),
        rounds=rounds,
    )


def machine(device: str, precision: str, jobs: int, on: str = "local") -> Machine:
    kind = device_named(device).type
    precision = precision or ("bf16" if kind == "cuda" else "fp32")
    require(precision in ("fp32", "tf32", "bf16"), f"--precision must be fp32, tf32 or bf16, not {precision!r}")
    found = Machine(device, cast(Precision, precision), jobs, on)
    found.executor()  # refuses other names and numbers, before anything is run
    return found


def reproduce_command(
    names: list[str], asked: Selection, where: Machine, out: Path, only: Only, patterns: tuple[str, ...] = ()
) -> bool:
    """Run, write the reports, and say whether every ordering that is safe to expect was found (if asked)."""
    recipes = [_recipe(name) for name in names if name != "claims"]
    store = ResultStore(out)
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
        _print_status(cells, store)
        return True
    if only == "" and cells:
        _run(cells, store, where)
    with publishing(out):  # reads after it has waited: the last report has everything
        measured = Measurements(load_runs(out, asked.scale_name, asked.profile))
        for recipe in recipes:
            _console.print(f"{recipe.number:<17} {publish(recipe, whole, measured, out)}", markup=False)
        return _claims(whole, measured, out) if "claims" in names else True


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
    if name not in RECIPES:
        close = difflib.get_close_matches(name, [*RECIPES, "claims"], n=1)
        hint = f"did you mean {close[0]}?" if close else "see fedswe reproduce --list"
        raise FedsweError(f"unknown recipe {name!r}: {hint}")
    return RECIPES[name]


def _run(cells: list[PaperCell], store: ResultStore, where: Machine) -> None:
    grid = [cell.on(where.device, where.precision) for cell in cells]
    left = [cell for cell in grid if not store.finished(cell)]
    _console.print(f"runs      {len(grid) - len(left)} of {len(grid)} finished before, {len(left)} left")
    if not left:
        return
    try:
        with RoundProgress() as progress, where.executor() as workers:
            run_cells(left, store, workers, progress)
    except KeyboardInterrupt:
        _console.print("runs      stopped; the same command continues them")
        raise
    elsewhere = store.running(left)
    if elsewhere:
        _console.print(f"runs      {len(elsewhere)} are being run by another process; ask again when it is done")


def _print_status(cells: list[PaperCell], store: ResultStore) -> None:
    left = [cell for cell in cells if not store.finished(cell.on())]
    claimed = {cell.name for cell in store.running([cell.on() for cell in left])}
    running = [cell for cell in left if cell.on().name in claimed]
    done = len(cells) - len(left)
    _console.print(f"runs      {done} finished, {len(running)} running, {len(left) - len(running)} left")
    for cell in running:
        _console.print(f"running   {cell.name}", markup=False)


def _claims(whole: Selection, measured: Measurements, out: Path) -> bool:
    judged = judge(whole, measured)
    table = Table(title="claims of the paper", title_justify="left")
    for column in ("claim", "verdict", "where it holds"):
        table.add_column(column, overflow="fold")
    for claim, verdict in judged:
        table.add_row(claim.id, verdict.status, verdict.count)
    _console.print(table)
    _console.print(f"evidence          {publish_claims(whole, judged, measured, out)}", markup=False)
    broken = [claim for claim, verdict in judged if claim.broken(whole, verdict)]
    for claim in broken:
        _console.print(f"unexpected: does not hold: {claim.asserts}", markup=False)
    return not broken
