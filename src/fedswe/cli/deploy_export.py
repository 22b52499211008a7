"""fedswe deploy trace, export: the availability that happened, and the current model, for use elsewhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from fedswe.cli.console import console
from fedswe.cli.deploy_arguments import OwnTasks, RunFolder, find_tasks
from fedswe.errors import require
from fedswe.results.files import write_whole


def trace_command(
    run: RunFolder,
    out: Annotated[Path, typer.Option(help="The mask file to write, for availability.name=mask")] = Path("mask.csv"),
    own: OwnTasks = None,
) -> None:
    """Export the availability that happened as a mask for the simulator."""
    from fedswe.availability import Mask
    from fedswe.deploy import ledger
    from fedswe.deploy.stored_run import stored_deployment, trace
    from fedswe.experiment.configuration import dump

    find_tasks(run, own)
    replay = out.with_suffix(".toml")
    require(replay != out, f"--out is the mask, its configuration goes to {replay}: choose {out.with_suffix('.csv')}")
    mask = trace(run, out)
    deployed = stored_deployment(run, ledger.read(run / ledger.FILE)).experiment
    write_whole(replay, dump(replace(deployed, rounds=len(mask), availability=Mask(file=str(out.resolve())))))
    share = f"{100 * mask.mean():.0f} % available"
    console.print(f"mask      {out}: {mask.shape[0]} rounds, {mask.shape[1]} clients, {share}")
    console.print(f"replay    fedswe run {replay}")


def export_command(
    run: RunFolder,
    out: Annotated[Path, typer.Option(help="The safetensors file to write")] = Path("model.safetensors"),
    model: Annotated[
        str, typer.Option(help="server, client_mean or another of evaluate.model; default: the served model")
    ] = "",
    own: OwnTasks = None,
) -> None:
    """Write the current model of a run as named parameters, which torch's load_state_dict takes."""
    from fedswe.deploy import ledger
    from fedswe.deploy.deployment import served_by_default
    from fedswe.deploy.protocol import RunProtocol
    from fedswe.deploy.server_files import ServerFiles
    from fedswe.deploy.stored_run import snapshot, stored_deployment
    from fedswe.results.tensors import to_bytes

    find_tasks(run, own)
    deployment = stored_deployment(run, ledger.read(run / ledger.FILE))
    experiment = deployment.experiment
    model = model or experiment.evaluate.served or served_by_default(type(experiment.algorithm))
    known = dict.fromkeys(["server", "client_mean", *experiment.evaluate.outputs()])
    require(model in known, f"--model must be one of {', '.join(known)}, not {model}")
    problem = deployment.problem()
    protocol = RunProtocol(deployment, problem, ServerFiles(run).start(problem.start))
    entries, models = snapshot(run, protocol)
    require(
        model in models,
        f"{run} has no state of {model} yet: it is evaluated from the next round on; choose server or client_mean",
    )
    x = models[model]
    write_whole(out, to_bytes(problem.state_dict(x), {"model": model, "round": str(len(entries))}))
    console.print(f"model     {out}: {model.replace('_', ' ')} after {len(entries)} rounds, {x.numel()} parameters")
