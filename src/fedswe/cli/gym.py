"""The command `fedswe gym`: measure rules in all settings of a scale, and write the leaderboard."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedswe.cli.arguments import Device, Jobs, Json, On, PrecisionName, Track, comma_separated, precision_named
from fedswe.cli.console import RoundProgress, console, print_json, print_table
from fedswe.errors import needed, require, suggestion, warn

if TYPE_CHECKING:  # imported when they are used: the help must not import torch
    from fedswe.gym.gym import Gym

OUT = Path("experiments/gym")  # in a checkout: where the measurements of this repository are


def gym_command(
    own: Annotated[
        list[str] | None,
        typer.Argument(metavar="[add RULE...]", help="Measure your own rules too, e.g. add ./mine.py:Mine:damp=0.5"),
    ] = None,
    scale: Annotated[
        Literal["ci", "small", "full"], typer.Option(help="ci (seconds), small (hours on two cores) or full (a GPU)")
    ] = "small",
    rules: Annotated[str, typer.Option(help="Only these of the scale's rules, e.g. fedavg,fedswe:k=100")] = "",
    tasks: Annotated[str, typer.Option(help="Only these tasks, e.g. digits,svhn")] = "",
    availability: Annotated[str, typer.Option(help="Only these availabilities, e.g. sine,turns,fedscale")] = "",
    device: Device = "cpu",
    precision: PrecisionName = None,
    jobs: Jobs = 0,
    on: On = "local",
    track: Track = "",
    out: Annotated[Path, typer.Option(help="Directory of the results; may be shared by several processes")] = OUT,
    report: Annotated[bool, typer.Option("--report", help="Run nothing; write the page of what is there")] = False,
    as_json: Json = False,
) -> None:
    """Measure rules on many kinds of unavailability with the same tuning for all, and write the leaderboard."""
    from fedswe.comparison.labels import split_labels
    from fedswe.experiment.experiment import device_named
    from fedswe.gym.gym import Gym
    from fedswe.gym.rules import RULES, rules_named
    from fedswe.gym.settings import SCALES, TRACES, missing_traces, settings_of, trace_folder

    device_named(device)
    command, *added = own or ["add"]
    require(command == "add" and (added or not own), f"write fedswe gym add RULE..., not {' '.join(own or [])}")
    chosen, known = split_labels(rules), RULES[scale]
    for label in chosen:
        hint = suggestion(label, known, f"add it with fedswe gym add {label}")
        require(label in known, f"{label} is no rule of the scale {scale}: {hint}")
    settings = settings_of(SCALES[scale], comma_separated(tasks), comma_separated(availability))
    gone = [] if report else missing_traces(settings)  # a page needs only what was measured
    if gone:
        names = ", ".join(dict.fromkeys(setting.availability for setting in gone))
        warn(f"left out: {names}; their traces are not in {trace_folder()}: set {TRACES} to the folder that has them")
    settings = [setting for setting in settings if setting not in gone]
    require(settings, "no setting is left")
    gym = Gym(
        SCALES[scale], settings, rules_named([*(chosen or known), *added]), out, device=device,
        precision=precision_named(precision, device), track=comma_separated(track),
    )  # fmt: skip
    needed("pyarrow", "paper")  # before the runs, whose measurements it writes
    if not report:
        from fedswe.grid.runner import Executor

        with RoundProgress(quiet=as_json) as watch, Executor(on, jobs, device) as workers:
            gym.run(workers, watch)
    _publish(gym, as_json)


def _publish(gym: Gym, as_json: bool) -> None:
    """The page has all rules and settings that are measured, whatever part this command has run."""
    from fedswe.gym.gym import whole_gym
    from fedswe.gym.page import caveat, heatmap, markdown, to_json
    from fedswe.gym.standings import results, standings
    from fedswe.plotting import save
    from fedswe.results.files import write_whole

    gym.publish()
    whole = whole_gym(gym)
    found, rules = results(whole), whole.rules
    require(found, f"{gym.store.path} has no measurements yet: run without --report")
    page = gym.out / f"LEADERBOARD-{gym.scale.name}.md"
    write_whole(page, markdown(gym.scale, found, rules))
    save(*heatmap(found, rules), gym.out / f"heatmap-{gym.scale.name}.svg")
    if as_json:
        print_json(to_json(gym.scale, found, rules))
        return
    rows = []
    for row in standings(found, rules).to_dict("records"):
        worst, mean = (row["worst"].text(2), row["mean"].text(2)) if row["worst"] else ("", "")
        rows.append((row["rule"].label, worst, row["in"], mean))
    print_table(f"regret, points of test accuracy, {len(found)} settings", ("rule", "worst", "in", "mean"), rows)
    if any(place.startswith("failed") for _, _, place, _ in rows):
        console.print("failed: each trial diverged or learned nothing, or the best one diverged with another seed")
    if warning := caveat(gym.scale):
        console.print(warning)
    console.print(f"results   {page}, {gym.store.path}/measurements.parquet")
