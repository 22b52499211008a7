"""fedswe deploy init, status, verify, trace, export; all but init work without Flower."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedswe.cli.arguments import Json
from fedswe.cli.console import console, print_json
from fedswe.errors import FedsweError, require
from fedswe.results.files import write_whole

if TYPE_CHECKING:
    from fedswe.deploy.ledger import Entry

_SHOWN = 5  # latest rounds that `status` prints

AppFolder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the app")]
OwnTasks = Annotated[
    Path | None, typer.Option("--app", metavar="DIR", help="Where your own task is; default: the folder of RUN_DIR")
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN_DIR", help="The run directory of the server")]


def init_command(
    folder: AppFolder,
    clients: Annotated[int, typer.Option(help="How many clients the federation has")] = 4,
    tls: Annotated[bool, typer.Option("--tls", help="With certificates and a key per client")] = False,
    server: Annotated[
        str, typer.Option(metavar="NAME", help="DNS name or address of the server, for its certificate; needs --tls")
    ] = "",
) -> None:
    """Write a complete Flower app."""
    need_flower()
    from fedswe.deploy.flower.app_template import write_app

    write_app(folder, clients, tls, server)
    console.print(f"app       {folder}: deployment.toml says what runs, federation/task.py takes your model and data")
    console.print(f"next      fedswe deploy up {folder}")


def verify_command(run: RunFolder, own: OwnTasks = None, as_json: Json = False) -> None:
    """Replay a run in the simulator with the availability that happened, and compare every server model."""
    import torch

    from fedswe.deploy.audit import TOLERANCE, verify

    _find_tasks(run, own)
    torch.set_num_threads(1)  # as in the processes of a trial: sums depend on the number of threads
    found = verify(run)
    if as_json:
        print_json({**asdict(found), "exact": found.exact, "passed": found.passed, "tolerance": TOLERANCE})
    else:
        console.print(f"rounds    {found.rounds}, {found.reports} reports merged, each counted once")
        same = "every server model has the simulator's bits"
        if not found.exact:
            where = ", ".join(map(str, found.differing[:10])) + ("..." if len(found.differing) > 10 else "")
            same = f"server models of rounds {where} have other bits; largest difference {found.difference:.2g}"
            same += f" over the {found.compared} models that were kept"
        console.print(f"models    {same}")
        console.print(f"mean      client mean differs by {found.client_mean_difference:.2g}")
        console.print(f"verify    {'passed' if found.passed else f'FAILED: more than {TOLERANCE:g}'}")
    if not found.passed:
        raise typer.Exit(1)


def trace_command(
    run: RunFolder,
    out: Annotated[Path, typer.Option(help="The mask file to write, for availability.name=mask")] = Path("mask.csv"),
    own: OwnTasks = None,
) -> None:
    """Export the availability that happened as a mask for the simulator."""
    from fedswe.availability import Mask
    from fedswe.deploy.audit import trace
    from fedswe.deploy.deployment import FILE, Deployment
    from fedswe.experiment.configuration import dump

    _find_tasks(run, own)
    replay = out.with_suffix(".toml")
    require(replay != out, f"--out is the mask, its configuration goes to {replay}: choose {out.with_suffix('.csv')}")
    mask = trace(run, out)
    deployed = Deployment.load(run / FILE).experiment
    write_whole(replay, dump(replace(deployed, rounds=len(mask), availability=Mask(file=str(out.resolve())))))
    share = f"{100 * mask.mean():.0f} % available"
    console.print(f"mask      {out}: {mask.shape[0]} rounds, {mask.shape[1]} clients, {share}")
    console.print(f"replay    fedswe run {replay}")


def status_command(run: RunFolder, as_json: Json = False) -> None:
    """Say how far a run is, which clients reported, and how many bytes were sent."""
    from fedswe.deploy import ledger

    contents = ledger.read(run / ledger.FILE)
    title, entries = contents.title, contents.entries
    rounds = _rounds(run)
    traffic, refused, last = Counter[str](), Counter[tuple[int, str]](), dict[int, int]()
    for entry in entries:
        traffic.update(entry.traffic)
        last |= dict.fromkeys(entry.merged, entry.t)
        for client, why in entry.rejected.items():
            refused.update({(client, reason): times for reason, times in why.items()})
    absent = {i: len(entries) - 1 - last.get(i, -1) for i in range(title.m)}
    absent = {client: n for client, n in absent.items() if n}
    write_ms = 1000 * sum(entry.seconds for entry in entries) / len(entries) if entries else None
    if as_json:
        print_json(
            {
                "rounds": rounds,
                "committed": len(entries),
                "clients": title.m,
                "bytes": dict(sorted(traffic.items())),
                "write_ms_per_round": write_ms,
                "absent_rounds": absent,
                "rejected": [{"client": c, "reason": reason, "times": n} for (c, reason), n in refused.items()],
            }
        )
        return
    console.print(f"rounds    {len(entries)} of {rounds} committed")
    for entry in entries[-_SHOWN:]:
        console.print(round_line(entry, rounds))
    console.print("traffic   " + (", ".join(f"{kind} {size(n)}" for kind, n in sorted(traffic.items())) or "nothing"))
    if write_ms is not None:
        console.print(f"writes    {write_ms:.1f} ms per round for ledger, models and fsync")
    console.print("absent    " + (", ".join(f"client {i} for {n} rounds" for i, n in absent.items()) or "none"))
    who = ", ".join(f"client {client}, {reason} ({n})" for (client, reason), n in refused.items())
    console.print("rejected  " + (who or "nothing"))


def export_command(
    run: RunFolder,
    out: Annotated[Path, typer.Option(help="The safetensors file to write")] = Path("model.safetensors"),
    model: Annotated[
        str, typer.Option(help="server or client_mean; default: client_mean for FedSWE, server otherwise")
    ] = "",
    own: OwnTasks = None,
) -> None:
    """Write the current model of a run as named parameters, which torch's load_state_dict takes."""
    from fedswe.algorithms import FedSWE
    from fedswe.deploy import ledger
    from fedswe.deploy.audit import snapshot
    from fedswe.deploy.deployment import FILE, Deployment
    from fedswe.deploy.protocol import RunProtocol
    from fedswe.deploy.server_files import ServerFiles
    from fedswe.results.tensors import to_bytes

    _find_tasks(run, own)
    title = ledger.read(run / ledger.FILE).title
    deployment = Deployment.load(run / FILE)
    # FedSWE's server model fluctuates from round to round; its client mean is the better model.
    model = model or ("client_mean" if isinstance(deployment.experiment.algorithm, FedSWE) else "server")
    require(model in ("server", "client_mean"), f"--model must be server or client_mean, not {model}")
    problem = deployment.problem()
    protocol = RunProtocol(deployment, problem, ServerFiles(run).start(problem.start))
    require(protocol.m == title.m, f"{run}: {FILE} is not of this run: restore the file it began with")
    entries, models = snapshot(run, protocol)
    x = models[model]
    write_whole(out, to_bytes(problem.state_dict(x), {"model": model, "round": str(len(entries))}))
    console.print(f"model     {out}: {model.replace('_', ' ')} after {len(entries)} rounds, {x.numel()} parameters")


def need_flower() -> None:
    try:
        import flwr
        import psutil
    except ImportError as error:
        raise FedsweError(f"{error.name} is not installed: pip install 'fedswe[flower]'") from None
    del flwr, psutil


def round_line(entry: Entry, rounds: int) -> str:
    """A round in one line: which clients were merged, the bytes sent, and what was rejected."""
    who = ",".join(map(str, entry.merged)) or "none"
    up = sum(n for kind, n in entry.traffic.items() if kind.startswith("up "))
    down = sum(n for kind, n in entry.traffic.items() if kind.startswith("down "))
    refused = {client: ", ".join(why) for client, why in entry.rejected.items()}
    rejected = "".join(f"  client {client} rejected ({why})" for client, why in refused.items())
    return f"round {entry.t + 1}/{rounds}  clients {who}  up {size(up)} down {size(down)}{rejected}"


def size(count: float) -> str:
    """A number of bytes with a unit."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def _find_tasks(run: Path, app: Path | None) -> None:
    """Make the user's own task importable: it is in the app, which holds the run directory of a trial."""
    sys.path.insert(0, str((app or run.resolve().parent).resolve()))


def _rounds(run: Path) -> int:
    """Read without building the experiment, whose task may not be installed here."""
    from fedswe.deploy.deployment import FILE
    from fedswe.experiment.configuration import read

    rounds: Any = read(run / FILE).get("rounds")
    require(type(rounds) is int, f"{run / FILE} does not say how many rounds: restore it from a backup")
    return int(rounds)
