"""The run computed again in the simulator, on the availability that happened and from the data of all clients.

The ledger holds a digest of every server model, so the comparison is exact. Clients with another processor or another
number of threads round differently: then the numbers of the stored models are compared, which are all of them with
deploy.trail = true, and otherwise the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from fedswe.availability.mask import Rows
from fedswe.core.algorithm import ServerView
from fedswe.core.records import Vector
from fedswe.deploy.audit.findings import Part, Replay
from fedswe.deploy.ledger import Contents, merged_mask
from fedswe.deploy.membership import Membership
from fedswe.deploy.packet import arrays_digest
from fedswe.deploy.protocol import RunProtocol
from fedswe.deploy.server_files import ServerFiles
from fedswe.engine import LoopEngine
from fedswe.engine.base import Attendance
from fedswe.tasks.problem import Problem

TOLERANCE = 1e-6  # relative to a model's largest coefficient, or absolute if all are smaller than 1


class MemberEngine(LoopEngine):
    """The simulator with clients that join and leave."""

    membership: Membership

    def step(self) -> Attendance:
        for change in self.membership.begin_at(self.t):
            members = [i for i in self.membership.members(self.t) if i != change.client and self.last[i] >= 0]
            if change.action == "join" and members:  # a client's state depends on its last reply alone
                like = max(members, key=lambda i: int(self.last[i]))
                self.clients[change.client], self.models[change.client] = self.clients[like], self.models[like]
                self.last[change.client] = self.last[like]
        return super().step()

    def _at_server(self) -> ServerView:
        return replace(super()._at_server(), m=self.membership.count(self.t))

    def client_mean(self) -> Vector:
        members = sorted(self.membership.members(max(self.t - 1, 0)))
        return torch.stack([self.models[i] for i in members]).mean(0)


def replay(
    folder: Path,
    contents: Contents,
    protocol: RunProtocol,
    problem: Problem,
    final: dict[str, Vector],
    watch: Callable[[int], None] | None = None,
) -> tuple[Part, Replay]:
    """`final`: server model and client mean after the last round, as stored; `watch` gets the rounds replayed."""
    entries, files, part = contents.entries, ServerFiles(folder, contents.entries), Part("replay")
    experiment, rounds = protocol.deployment.experiment, len(entries)
    prob = np.full((1, protocol.m), np.nan)
    if protocol.schedule is not None:
        prob = np.stack([protocol.schedule.prob(t) for t in range(rounds)])
    schedule = Rows(merged_mask(entries, protocol.m), prob)
    problem.start = protocol.start
    engine = MemberEngine(experiment.algorithm, problem, schedule, experiment.local, experiment.seed)
    engine.membership = protocol.membership
    differing: list[int] = []
    differences: list[float] = []
    for entry in entries:
        engine.step()
        x = engine.server_model()
        if arrays_digest({"x": x}) != entry.model:
            differing.append(entry.t)
        if (copy := files.trail(entry.t + 1)) is not None:
            differences.append(difference(x, copy))
        if watch is not None:
            watch(entry.t + 1)
    differences.append(difference(engine.server_model(), final["server"]))
    mean = difference(engine.client_mean(), final["client_mean"])
    found = Replay(differing, len(differences), float(np.max(differences)), mean)
    _judge(part, found, rounds)
    return part, found


def _judge(part: Part, found: Replay, rounds: int) -> None:
    if not found.differing:
        part.checked = f"all {rounds} server models have the simulator's bits"
    else:
        where = ", ".join(map(str, found.differing[:10])) + ("..." if len(found.differing) > 10 else "")
        part.checked = (
            f"server models of rounds {where} have other bits than the simulator's; "
            f"largest difference {found.difference:.2g} over the {found.compared} models that were kept"
        )
        # Rounding that differs once goes on: a later model with equal bits shows that the digest before is wrong.
        equal_again = [t for t in found.differing if t + 1 < rounds and t + 1 not in found.differing]
        for t in equal_again:
            part.failures.append(f"round {t}: the ledger names another server model than the data give")
    part.require(
        found.difference <= TOLERANCE,
        f"the stored server models differ by {found.difference:.2g} from those that the data give",
    )
    part.require(
        found.client_mean_difference <= TOLERANCE,
        f"the stored client mean differs by {found.client_mean_difference:.2g} from that which the data give",
    )


def difference(a: Vector, b: Vector) -> float:
    """The largest difference, relative to the largest coefficient if that is above 1."""
    a, b = a.double().cpu(), b.double().cpu()
    return float((a - b).abs().max() / a.abs().max().clamp(min=1))
