"""Did the deployment compute its algorithm? Replay the simulator on the A^t that happened, compare every model.

The ledger holds a digest of every server model, so equality is exact. Clients whose arithmetic rounds differently
(another processor, another number of threads) give other bits: `difference` is then measured on the models there are
copies of, all of them with deploy.trail=true, otherwise the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedswe.availability.mask import Rows
from fedswe.core.records import Vector
from fedswe.deploy import deployment as plan
from fedswe.deploy import ledger
from fedswe.deploy.client_table import ClientTable
from fedswe.deploy.codec import digest
from fedswe.deploy.deployment import Deployment
from fedswe.deploy.protocol import NEVER, RunProtocol
from fedswe.deploy.server_files import ServerFiles
from fedswe.deploy.snapshot import snapshot
from fedswe.deploy.trace import attendance
from fedswe.engine import LoopEngine
from fedswe.errors import require

TOLERANCE = 1e-6  # of a model's largest coefficient, or of 1 if they are all smaller


@dataclass(frozen=True)
class Verification:
    rounds: int
    reports: int  # merged in all rounds
    differing: list[int]  # rounds whose server model has other bits than the simulator's
    compared: int  # models whose numbers were compared
    difference: float  # the largest, over those models; in units of the largest coefficient where that is above 1
    client_mean_difference: float  # at the end, likewise; the simulator adds in another order

    @property
    def exact(self) -> bool:
        return not self.differing

    @property
    def passed(self) -> bool:
        """Equal bits, or equal numbers within the tolerance wherever there are numbers."""
        return (self.exact or self.difference <= TOLERANCE) and self.client_mean_difference <= TOLERANCE


def verify(directory: Path | str, watch: Callable[[int], None] | None = None) -> Verification:
    """Replay the run in `directory`; `watch` is told the rounds done."""
    folder, store = Path(directory), ServerFiles(Path(directory))
    title, entries, _ = ledger.read(folder / ledger.FILE)
    require(entries, f"{folder}: no round was committed yet, there is nothing to verify")
    deployment = Deployment.load(folder / plan.FILE)
    experiment, problem = deployment.experiment, deployment.problem()
    problem.start = store.start(problem.start)
    protocol = RunProtocol(deployment, problem)
    other = f"{folder}: {plan.FILE} is not of this run: restore the file it began with"
    require(protocol.m == title.m, other)
    entries, final = snapshot(folder, protocol)
    clients, rounds = ClientTable(protocol, store), len(entries)
    prob = np.full((1, title.m), np.nan)
    if protocol.schedule is not None:
        prob = np.stack([protocol.schedule.prob(t) for t in range(rounds)])
    seen = Rows(attendance(entries, title.m), prob)
    engine = LoopEngine(experiment.algorithm, problem, seen, experiment.local, experiment.seed)
    differing: list[int] = []
    gaps: list[float] = []
    for entry in entries:
        for client, since in entry.merged.items():  # Proposition 1 rests on this chain
            require(
                since == clients.merged(client),
                f"{folder}: in round {entry.t} client {client} echoed from round {since}, "
                f"not from its merge in {_named(clients.merged(client))}",
            )
        engine.step()
        clients.note(entry)
        x = engine.server_model()
        if digest({"x": x}) != entry.model:
            differing.append(entry.t)
        if (copy := store.trail(entry.t + 1)) is not None:
            gaps.append(_gap(x, copy))
        if watch is not None:
            watch(entry.t + 1)
    gaps.append(_gap(engine.server_model(), final["server"]))
    reports = sum(len(entry.merged) for entry in entries)
    mean_gap = _gap(engine.client_mean(), final["client_mean"])
    found = Verification(rounds, reports, differing, len(gaps), float(np.max(gaps)), mean_gap)
    require(found.passed or protocol.plan == title.plan, other)  # only then: a later version may know more keys
    return found


def _gap(a: Vector, b: Vector) -> float:
    a, b = a.double().cpu(), b.double().cpu()
    return float((a - b).abs().max() / a.abs().max().clamp(min=1))


def _named(t: int) -> str:
    return "no round" if t == NEVER else f"round {t}"
