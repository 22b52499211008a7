"""The commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedswe.cli import bench, catalogue, compare, data, deploy, theory
from fedswe.cli import run as execute
from fedswe.cli.arguments import Jobs, On, Out, Words
from fedswe.errors import FedsweError

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    help="Federated learning when clients come and go: FedSWE and its peers.",
)

app.add_typer(data.app, name="data")
app.add_typer(theory.app, name="theory")
app.add_typer(deploy.app, name="deploy")


@app.command()
def run(
    words: Words = None,
    out: Out = None,
    resume: Annotated[Path | None, typer.Option(metavar="DIR", help="Continue the run in this directory")] = None,
) -> None:
    """Run one experiment."""
    execute.run_command(words or [], out, resume)


app.command("compare")(compare.compare_command)


@app.command("bench")
def bench_(
    workloads: Annotated[str, typer.Option(help="cnn, softmax, or both")] = "cnn,softmax",
    device: Annotated[str, typer.Option(help="cpu or cuda")] = "cpu",
    precision: Annotated[str, typer.Option(help="fp32, tf32 or bf16; default fp32 on a CPU, bf16 on a GPU")] = "",
    repetitions: Annotated[int, typer.Option(help="Turns of plain loop and fedswe")] = 5,
    seconds: Annotated[float, typer.Option(help="About how long each of the two is measured")] = 5.0,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON per workload")] = False,
) -> None:
    """Measure client-steps per second against a plain PyTorch loop in the same run."""
    bench.bench_command(workloads, device, precision, repetitions, seconds, as_json)


@app.command("reproduce")
def reproduce_(
    names: Annotated[list[str] | None, typer.Argument(metavar="[RECIPE]...", help="As in --list, or claims")] = None,
    list_recipes: Annotated[bool, typer.Option("--list", help="Say which recipes there are")] = False,
    everything: Annotated[bool, typer.Option("--all", help="All recipes, and the claims")] = False,
    scale: Annotated[
        str, typer.Option(help="ci (seconds), small (minutes) or full (the paper's, for a GPU)")
    ] = "small",
    profile: Annotated[str, typer.Option(help="released or paper; see fedswe show profile")] = "released",
    dataset: Annotated[str, typer.Option(help="Comma-separated: svhn, cifar10, cinic10, fashion_mnist, digits")] = "",
    dynamics: Annotated[str, typer.Option(help="Only these, e.g. sine or periodic-static")] = "",
    algorithms: Annotated[str, typer.Option(help="Only these, e.g. fedswe,fedavg")] = "",
    seeds: Annotated[str, typer.Option(help="Comma-separated; default: those of the scale")] = "",
    rounds: Annotated[int, typer.Option(help="Instead of the rounds of the scale")] = 0,
    cells: Annotated[str, typer.Option(help="Only runs with such names, e.g. '*-k10-*,*-mifa-*'; * is any text")] = "",
    device: Annotated[str, typer.Option(help="cpu or cuda")] = "cpu",
    precision: Annotated[str, typer.Option(help="fp32, tf32 or bf16; default fp32 on a CPU, bf16 on a GPU")] = "",
    jobs: Jobs = 0,
    on: On = "local",
    out: Annotated[Path, typer.Option(help="Directory of the results; may be shared by several processes")] = Path(
        "reproduction"
    ),
    status: Annotated[bool, typer.Option("--status", help="Only say which runs are finished, running, left")] = False,
    report: Annotated[bool, typer.Option("--report", help="Run nothing; write the reports of what is there")] = False,
) -> None:
    """Regenerate tables and figures of the paper, beside the published numbers; finished runs are kept."""
    from fedswe_paper import command as reproduce
    from fedswe_paper.recipes import RECIPES

    if list_recipes:
        reproduce.list_recipes()
        return
    if bool(names) == everything:
        raise FedsweError("name a recipe of fedswe reproduce --list, or --all")
    if status and report:
        raise FedsweError("--status and --report are two questions: ask one of them")
    good = reproduce.reproduce_command(
        [*RECIPES, "claims"] if everything else names or [],
        reproduce.selection(scale, profile, dataset, dynamics, algorithms, seeds, rounds),
        reproduce.machine(device, precision, jobs, on),
        out,
        "status" if status else "report" if report else "",
        tuple(pattern for pattern in cells.split(",") if pattern),
    )
    if not good and not everything:
        raise typer.Exit(1)


@app.command("list")
def list_() -> None:
    """List algorithms, availability models and tasks."""
    catalogue.list_command()


@app.command()
def show(name: Annotated[str, typer.Argument(help="A name from `fedswe list`")]) -> None:
    """Explain one of them: formula, parameters, memory, messages, citation; or `profile`: two readings of the paper."""
    if name == "profile":
        from fedswe_paper import command as reproduce

        reproduce.show_profile()
    else:
        catalogue.show_command(name)
