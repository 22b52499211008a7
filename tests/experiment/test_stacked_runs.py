"""Runs side by side: seats, which wait for the device, are given when everything else is under way."""

from dataclasses import dataclass
from typing import ClassVar

from fedswe.algorithms import F3AST, FedAvg, FedSWE
from fedswe.core.local import Local
from fedswe.engine.batched import BatchedEngine, step_together
from tests import problems
from tests.engine.solvers.workbench import problem


@dataclass(frozen=True)
class Watched(F3AST):
    """Tells when it is asked for bids, which on a GPU waits for all work under way."""

    events: ClassVar[list[str]] = []

    def bid(self, c, at):
        self.events.append("bid")
        return super().bid(c, at)


def company():
    present = problems.mask(30, 9)
    engines = []
    for algorithm in (Watched(budget=2), FedSWE(k=2), FedAvg(), Watched(budget=3)):
        task = problem("mlp", seed=4)
        draw = task.draw
        task.draw = lambda *words, draw=draw: Watched.events.append("draw") or draw(*words)
        engines.append(BatchedEngine(algorithm, task, problems.schedule(present), Local(2, 16, 0.1), 5))
    return engines


def test_those_without_seats_draw_before_anybody_bids():
    step_together(company())
    assert Watched.events == ["draw", "draw", "bid", "draw", "bid", "draw"]
