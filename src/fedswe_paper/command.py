"""fedswe reproduce."""

from __future__ import annotations

import difflib
import time
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, cast

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from fedswe.cli import arguments as words
from fedswe.errors import FedsweError
from fedswe.experiment.experiment import device_named
from fedswe_paper.cell import Cell
from fedswe_paper.claims import judge, publish_claims
from fedswe_paper.grid import Machine, run_cells
from fedswe_paper.measurements import Measurements
from fedswe_paper.profile import DEVIATIONS, PROFILES
from fedswe_paper.publish import publish
from fedswe_paper.recipe import Recipe
from fedswe_paper.recipes import RECIPES
from fedswe_paper.scale import SCALES
from fedswe_paper.selection import Selection
from fedswe_paper.store import Store

_console = Console(highlight=False, soft_wrap=True)

Only = Literal["", "status", "report"]


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


def machine(device: str, precision: str, jobs: int) -> Machine:
    if jobs < 0:
        raise FedsweError(f"--jobs must be 0 (one per core, one for a GPU) or positive, not {jobs}")
    kind = device_named(device).type
    precision = precision or ("bf16" if kind == "cuda" else "fp32")
    if precision not in ("fp32", "tf32", "bf16"):
        raise FedsweError(f"--precision must be fp32, tf32 or bf16, not {precision!r}")
    return Machine(device, cast(Literal["fp32", "tf32", "bf16"], precision), jobs)


def reproduce_command(
    names: list[str], asked: Selection, where: Machine, out: Path, only: Only, patterns: tuple[str, ...] = ()
) -> bool:
    """Run, write the reports, and say whether every ordering that is safe to expect was found (if asked)."""
    recipes = [_recipe(name) for name in names if name != "claims"]
    store = Store(out)
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
    with store.publishing():  # reads after it has waited: the last report has everything
        measured = Measurements(store.load(asked.scale_name, asked.profile))
        for recipe in recipes:
            _console.print(f"{recipe.number:<17} {publish(recipe, whole, measured, out)}", markup=False)
        return _claims(whole, measured, out) if "claims" in names else True


def _named(cells: list[Cell], patterns: tuple[str, ...]) -> list[Cell]:
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


def _run(cells: list[Cell], store: Store, where: Machine) -> None:
    left = [cell for cell in cells if not store.finished(cell)]
    _console.print(f"runs      {len(cells) - len(left)} of {len(cells)} finished before, {len(left)} left")
    try:
        with _Display() as display:
            run_cells(cells, store, where, display)
    except KeyboardInterrupt:
        _console.print("runs      stopped; the same command goes on where they are")
        raise
    elsewhere = store.running(left)
    if elsewhere:
        _console.print(f"runs      {len(elsewhere)} are being run by another process; ask again when it is done")


def _print_status(cells: list[Cell], store: Store) -> None:
    done = [cell for cell in cells if store.finished(cell)]
    left = [cell for cell in cells if cell not in set(done)]
    running = store.running(left)
    _console.print(f"runs      {len(done)} finished, {len(running)} running, {len(left) - len(running)} left")
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


class _Display:
    """Rounds run of all cells, and the time that is left; lines where there is no terminal."""

    def __init__(self) -> None:
        self._began = self._printed = time.monotonic()
        self._bar = Progress(
            TextColumn("rounds {task.completed}/{task.total}"),
            BarColumn(),
            TextColumn("{task.fields[left]}"),
            console=_console,
            disable=not _console.is_terminal,
        )
        self._task = self._bar.add_task("", total=None, left="")

    def __enter__(self) -> _Display:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._printed < (0.2 if _console.is_terminal else 10) and done < total:
            return
        self._printed = now
        seconds = (now - self._began) * (total - done) / done if done else 0
        left = f"about {seconds / 60:.0f} min left" if seconds > 90 else f"about {seconds:.0f} s left" if done else ""
        self._bar.update(self._task, completed=done, total=total, left=left)
        if not _console.is_terminal and done:
            _console.print(f"rounds {done}/{total}  {left}")
