"""fedswe deploy verify, trace, status, export: what a run directory says, without Flower."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import safetensors.torch
import torch
import typer
from rich.console import Console

from fedswe.algorithms import FedSWE
from fedswe.availability import Mask
from fedswe.cli.format import size, told
from fedswe.deploy import ledger
from fedswe.deploy.audit import TOLERANCE, snapshot, trace, verify
from fedswe.deploy.deployment import FILE, Deployment
from fedswe.deploy.protocol import RunProtocol
from fedswe.deploy.server_files import ServerFiles
from fedswe.errors import require
from fedswe.experiment.configuration import dump, read
from fedswe.results.files import write_whole

_console = Console(highlight=False, soft_wrap=True)


def verify_command(run: Path, app: Path | None) -> None:
    _find_tasks(run, app)
    torch.set_num_threads(1)  # as the processes of a trial: sums depend on the number of threads
    found = verify(run)
    _console.print(f"rounds    {found.rounds}, {found.reports} reports merged, each counted once")
    same = "every server model has the simulator's bits"
    if not found.exact:
        where = ", ".join(map(str, found.differing[:10])) + ("..." if len(found.differing) > 10 else "")
        same = f"server models of rounds {where} have other bits; largest difference {found.difference:.2g}"
        same += f" over the {found.compared} models that were kept"
    _console.print(f"models    {same}")
    _console.print(f"mean      client mean differs by {found.client_mean_difference:.2g}")
    verdict = "passed" if found.passed else f"FAILED: more than {TOLERANCE:g}"
    _console.print(f"verify    {verdict}")
    if not found.passed:
        raise typer.Exit(1)


def trace_command(run: Path, out: Path, app: Path | None) -> None:
    _find_tasks(run, app)
    replay = out.with_suffix(".toml")
    require(replay != out, f"--out is the mask, its configuration goes to {replay}: choose {out.with_suffix('.csv')}")
    mask = trace(run, out)
    lived = Deployment.load(run / FILE).experiment
    write_whole(replay, dump(replace(lived, rounds=len(mask), availability=Mask(file=str(out.resolve())))))
    _console.print(f"mask      {out}: {mask.shape[0]} rounds, {mask.shape[1]} clients, {100 * mask.mean():.0f} % there")
    _console.print(f"replay    fedswe run {replay}")


def status_command(run: Path) -> None:
    title, entries, _ = ledger.read(run / ledger.FILE)
    rounds = _rounds(run)
    _console.print(f"rounds    {len(entries)} of {rounds} committed")
    for entry in entries[-5:]:
        _console.print(told(entry, rounds))
    traffic, refused, last = Counter[str](), Counter[str](), dict[int, int]()
    for entry in entries:
        traffic.update(entry.traffic)
        last |= dict.fromkeys(entry.merged, entry.t)
        for client, why in entry.rejected.items():
            refused.update({f"client {client}, {reason}": times for reason, times in why.items()})
    _console.print("moved     " + (", ".join(f"{kind} {size(n)}" for kind, n in sorted(traffic.items())) or "nothing"))
    if entries:
        durable = sum(entry.seconds for entry in entries) / len(entries)
        _console.print(f"writes    {1000 * durable:.1f} ms per round for ledger, models and fsync")
    away = {i: len(entries) - 1 - last.get(i, -1) for i in range(title.m)}
    _console.print("absent    " + (", ".join(f"client {i} for {n} rounds" for i, n in away.items() if n) or "nobody"))
    _console.print("rejected  " + (", ".join(f"{who} ({n})" for who, n in refused.items()) or "nothing"))


def export_command(run: Path, out: Path, model: str, app: Path | None) -> None:
    """The named parameters, which torch's load_state_dict takes; the plain vector for tasks without a network."""
    _find_tasks(run, app)
    title = ledger.read(run / ledger.FILE)[0]
    deployment = Deployment.load(run / FILE)
    algorithm = deployment.experiment.algorithm
    # FedSWE's server model is unsteady, its quality is at the client mean.
    model = model or ("client_mean" if isinstance(algorithm, FedSWE) else "server")
    require(model in ("server", "client_mean"), f"--model must be server or client_mean, not {model}")
    problem = deployment.problem()
    protocol = RunProtocol(deployment, problem, ServerFiles(run).start(problem.start))
    require(protocol.m == title.m, f"{run}: {FILE} is not of this run: restore the file it began with")
    entries, models = snapshot(run, protocol)
    x = models[model]
    network = getattr(problem, "network", None)
    tensors = {"x": x} if network is None else network.parameters_at(x)
    tensors = {name: value.detach().cpu().clone().contiguous() for name, value in tensors.items()}
    write_whole(out, safetensors.torch.save(tensors, {"model": model, "round": str(len(entries))}))
    _console.print(f"model     {out}: {model.replace('_', ' ')} after {len(entries)} rounds, {x.numel()} parameters")


def _find_tasks(run: Path, app: Path | None) -> None:
    """Let the user's own task be imported: from the app, which a trial's run directory lies in."""
    sys.path.insert(0, str((app or run.resolve().parent).resolve()))


def _rounds(run: Path) -> int:
    """Without building the experiment, whose task may not be here."""
    rounds = read(run / FILE).get("rounds")
    require(type(rounds) is int, f"{run / FILE} does not say how many rounds: restore it from a backup")
    return int(str(rounds))
