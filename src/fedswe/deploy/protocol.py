"""What both ends derive from the deployment: the shapes of all messages, and the home of each client's state.

After a merge, the state of a client is ``settle(report(...), reply)``. Where that depends on the reply and the round
alone, the algorithm *forgets*: the state can be had again from the ledger (the round) and the reply, by ``settled``.
Such state lives with the client, which needs to keep nothing but its last reply, and commits it only when a reply
proves the merge; there is nothing tentative to undo. State that does not forget (running means, counters, control
variates) lives at the server, which sends the job and makes the report itself: a client's disk cannot then contradict
the server's sums. The trajectory is the same in both homes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch

from fedswe.core.algorithm import Algorithm, ClientView, Done, ServerView, empty_report
from fedswe.core.records import Scalar, Vector, parts
from fedswe.deploy.codec import digest
from fedswe.deploy.deployment import Deployment
from fedswe.errors import require
from fedswe.tasks.problem import Problem

NEVER = -1  # the round of the last merge of a client that was never merged


class RunProtocol:
    def __init__(self, deployment: Deployment, problem: Problem, start: Vector | None = None) -> None:
        experiment = deployment.experiment
        self.deployment, self.plan = deployment, deployment.digest()
        self.algorithm, self.local, self.seed = experiment.algorithm, experiment.local, experiment.seed
        self.m, self.start = problem.m, problem.start if start is None else start
        self.schedule = deployment.schedule(problem)
        name = type(self.algorithm).__name__
        if self.algorithm.needs_probabilities:
            assert self.schedule is not None  # the deployment saw to it
            require(
                not np.isnan(self.schedule.prob(0)).any(),
                f"{name} needs the true probabilities: give availability.prob_file with the mask",
            )
        self.home = self.algorithm.home
        # One record of each kind, to check what arrives against.
        server, view = self.algorithm.server_init(self.start), self.at_server(0)
        self.client = self.algorithm.client_init(self.start)
        self.down = self.algorithm.downlink(server, view)
        self.nobody = empty_report(self.algorithm, self.start)
        self.reply = self.algorithm.merge(server, self.nobody, 1, view)[1]
        self.rebuilds = self.home == "client" and bool(parts(self.client))  # there is a base a client must hold
        require(
            not self.algorithm.trains_while_absent or (self.home == "client" and not parts(self.down)),
            f"{name} trains while absent from what only the server knows: it cannot be deployed",
        )
        self.start_digest = digest({"start": self.start})

    def at_server(self, t: int) -> ServerView:
        return ServerView(t, self.m, self.local.lr_at(t))

    def at_client(self, client: int, t: int) -> ClientView:
        prob = float("nan") if self.schedule is None else self.schedule.prob(t)[client]
        return ClientView(t=self._scalar(t), p=self._scalar(prob))

    def present(self, client: int, t: int) -> bool:
        """Whether the client's own coin lets it take part in round t."""
        return self.schedule is None or bool(self.schedule.sample(t)[client])

    def settled(self, start: Vector, merged: int, reply: Any) -> Any:
        """The state of a client that was merged in round `merged` and answered with `reply`."""
        state = self.algorithm.client_init(start)
        if merged == NEVER:
            return state
        return _after_round(self.algorithm, state, start, start, reply, self._scalar(merged))

    def _scalar(self, value: float) -> Scalar:
        return self.start.new_full((1,), float(value))


def home_of(algorithm: Algorithm) -> Literal["client", "server"]:
    """Two clients of different pasts, merged in the same round with the same reply: do they differ afterwards?"""
    x0 = torch.tensor([0.5, -2.0, 3.0], dtype=torch.float64)
    reply = algorithm.merge(algorithm.server_init(x0), empty_report(algorithm, x0), 1, ServerView(5, 2, 0.1))[1]
    state = algorithm.client_init(x0)
    other = replace(state, **{n: torch.full_like(v, 2.0) + v for n, v in parts(state).items()})
    five = x0.new_full((1,), 5.0)
    ends = [_after_round(algorithm, c, x0, end, reply, five) for c, end in ((state, x0), (other, x0 + 1.0))]
    forgets = all(torch.equal(v, getattr(ends[1], n)) for n, v in parts(ends[0]).items())
    return "client" if forgets else "server"


def _after_round(algorithm: Algorithm, state: Any, x: Vector, end: Vector, reply: Any, t: Scalar) -> Any:
    at = ClientView(t, p=torch.full_like(t, 0.5))
    down = algorithm.downlink(algorithm.server_init(x), ServerView(int(t), 1, 1.0))
    job = algorithm.plan(state, down, at)
    after = algorithm.report(state, down, job, Done(end, steps=1, lr=1.0), at)[0]
    return algorithm.settle(after, reply, at)
