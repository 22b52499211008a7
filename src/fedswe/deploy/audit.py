"""Check that a deployment computed its algorithm: replay it in the simulator on the merged clients, compare the models.

The ledger holds a digest of every server model, so the comparison is exact. Clients with another processor or another
number of threads round differently: then `difference` is measured on the stored models, which are all of them with
deploy.trail = true, and otherwise the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedswe.availability.mask import Rows
from fedswe.availability.schedule import Bools
from fedswe.core.records import Vector
from fedswe.deploy import ledger
from fedswe.deploy.client_table import ClientTable
from fedswe.deploy.deployment import FILE as DEPLOYMENT_FILE
from fedswe.deploy.deployment import Deployment
from fedswe.deploy.ledger import Entry, merged_mask
from fedswe.deploy.packet import digest
from fedswe.deploy.protocol import NEVER, RunProtocol
from fedswe.deploy.server_files import ServerFiles
from fedswe.engine import LoopEngine
from fedswe.errors import FedsweError, require
from fedswe.results.files import write_whole

TOLERANCE = 1e-6  # relative to a model's largest coefficient, or absolute if all are smaller than 1


@dataclass(frozen=True)
class Verification:
    rounds: int
    reports: int  # merged in all rounds
    differing: list[int]  # rounds whose server model has other bits than the simulator's
    compared: int  # models whose numbers were compared
    difference: float  # the largest over these models, relative to the largest coefficient where that is above 1
    client_mean_difference: float  # at the end; the simulator adds in another order, so it is rarely 0

    @property
    def exact(self) -> bool:
        return not self.differing

    @property
    def passed(self) -> bool:
        """Equal bits, or equal numbers within the tolerance for all stored models."""
        return (self.exact or self.difference <= TOLERANCE) and self.client_mean_difference <= TOLERANCE


def verify(directory: Path | str, watch: Callable[[int], None] | None = None) -> Verification:
    """Replay the run in `directory`; `watch` is called with the number of replayed rounds."""
    folder = Path(directory)
    contents = ledger.read(folder / ledger.FILE)
    files = ServerFiles(folder, contents.entries)
    title = contents.title
    require(contents.entries, f"{folder}: no round was committed yet, there is nothing to verify")
    deployment = Deployment.load(folder / DEPLOYMENT_FILE)
    experiment, problem = deployment.experiment, deployment.problem()
    problem.start = files.start(problem.start)
    protocol = RunProtocol(deployment, problem)
    not_of_this_run = f"{folder}: {DEPLOYMENT_FILE} is not of this run: restore the file it began with"
    require(protocol.m == title.m, not_of_this_run)
    entries, final = snapshot(folder, protocol)
    clients, rounds = ClientTable(protocol, files), len(entries)
    prob = np.full((1, title.m), np.nan)
    if protocol.schedule is not None:
        prob = np.stack([protocol.schedule.prob(t) for t in range(rounds)])
    schedule = Rows(merged_mask(entries, title.m), prob)
    engine = LoopEngine(experiment.algorithm, problem, schedule, experiment.local, experiment.seed)
    differing: list[int] = []
    differences: list[float] = []
    for entry in entries:
        for client, since in entry.merged.items():  # Proposition 1 needs that these intervals are contiguous
            require(
                since == clients.merged(client),
                f"{folder}: in round {entry.t} client {client} echoed from round {since}, "
                f"not from its merge in {_round_name(clients.merged(client))}",
            )
        engine.step()
        clients = clients.after(entry)
        x = engine.server_model()
        if digest({"x": x}) != entry.model:
            differing.append(entry.t)
        if (copy := files.trail(entry.t + 1)) is not None:
            differences.append(_difference(x, copy))
        if watch is not None:
            watch(entry.t + 1)
    differences.append(_difference(engine.server_model(), final["server"]))
    reports = sum(len(entry.merged) for entry in entries)
    mean_difference = _difference(engine.client_mean(), final["client_mean"])
    found = Verification(rounds, reports, differing, len(differences), float(np.max(differences)), mean_difference)
    # Only a failed replay needs this check: a later version may know more keys, which changes the digest.
    require(found.passed or protocol.config_digest == title.plan, not_of_this_run)
    return found


def snapshot(folder: Path, protocol: RunProtocol) -> tuple[list[Entry], dict[str, Vector]]:
    """The committed rounds, and server model and client mean after the last; also while the server is running."""
    while True:
        contents = ledger.read(folder / ledger.FILE)
        entries, files = contents.entries, ServerFiles(folder, contents.entries)
        clients = ClientTable(protocol, files)
        for entry in entries:
            clients = clients.after(entry)
        server = protocol.server_init()
        try:
            if entries:
                server = files.state(len(entries), server)
            return entries, {"server": server.model, "client_mean": clients.mean()}
        except FedsweError:
            # If the server has committed another round meanwhile, it has removed the files of the one before.
            if ledger.read(folder / ledger.FILE).size == contents.size:
                raise


def trace(directory: Path | str, out: Path | str) -> Bools:
    """Write the availability that happened to a file for ``availability.name=mask``; returns the mask [rounds, m]."""
    contents = ledger.read(Path(directory) / ledger.FILE)
    require(contents.entries, f"{directory}: no round was committed yet, there is nothing to export")
    mask = merged_mask(contents.entries, contents.title.m)
    lines = [",".join("01"[available] for available in row) for row in mask.astype(int)]
    write_whole(Path(out), "\n".join(lines) + "\n")
    return mask


def _difference(a: Vector, b: Vector) -> float:
    a, b = a.double().cpu(), b.double().cpu()
    return float((a - b).abs().max() / a.abs().max().clamp(min=1))


def _round_name(t: int) -> str:
    return "no round" if t == NEVER else f"round {t}"
