"""What server and clients derive from the deployment: the shapes of all messages, and where client state is kept.

After a merge, the state of a client is ``settle(report(...), reply)``. If that depends only on the reply and the round,
the state can be rebuilt from the ledger (the round) and the reply: see ``RunProtocol.rebuilt_state``. An algorithm
declares it by ``home = "client"``. Such state is kept at the client, which stores only its last reply and replaces it
only when a new reply proves a merge. Other state (running means, counters, control variates) is kept at the server,
which sends the training job and computes the report from the end of the training; a lost client disk then cannot
contradict the sums at the server. The server models are the same in both cases.
"""

from __future__ import annotations

from typing import Any

import torch

from fedswe.availability.schedule import require_probabilities
from fedswe.core.aggregation import Server, aggregate, begin
from fedswe.core.algorithm import ClientView, Done, ServerView, empty_report
from fedswe.core.records import Scalar, Vector, parts
from fedswe.deploy.deployment import Deployment
from fedswe.deploy.membership import Membership
from fedswe.deploy.packet import Arrays, Schemas, arrays_digest, encode
from fedswe.errors import require
from fedswe.tasks.problem import Problem

NEVER = -1  # stands for the round of the last merge of a client that was never merged


class RunProtocol:
    def __init__(
        self,
        deployment: Deployment,
        problem: Problem,
        start: Vector | None = None,
        membership: Membership | None = None,
    ) -> None:
        """`membership`: as the ledger says; default: all clients of the task, in all rounds."""
        experiment = deployment.experiment
        self.deployment, self.config_digest = deployment, deployment.digest()
        self.algorithm, self.local, self.seed = experiment.algorithm, experiment.local, experiment.seed
        self.m, self.start = problem.m, problem.start if start is None else start
        self.membership = membership or Membership(self.m)
        self.schedule = deployment.schedule(problem)
        name = type(self.algorithm).__name__
        if self.algorithm.needs_probabilities:
            assert self.schedule is not None  # checked by Deployment
            require_probabilities(self.schedule, self.algorithm)
        self.home = self.algorithm.home
        # One record of each type: arriving records are checked against them.
        server = self.server_init()
        self.client = self.algorithm.client_init(self.start)
        self.down = self.downlink(server, 0)
        self.no_report = empty_report(self.algorithm, self.start)
        self.reply = self.merge(server, self.no_report, 1, 0)[1]
        # A client needs its last reply, if there is something in it; Echo's clients need only the round of it.
        self.needs_base = self.home == "client" and bool(parts(self.client)) and bool(parts(self.reply))
        require(
            not self.algorithm.trains_while_absent or (self.home == "client" and not parts(self.down)),
            f"{name} trains while absent, but needs data that only the server has: it cannot be deployed",
        )
        self.start_digest = arrays_digest({"start": self.start})
        self.to_server, self.to_client = self._schemas()

    def _schemas(self) -> tuple[Schemas, Schemas]:
        """The arrays of the messages to the server, and of those to a client."""
        start, reply, down = self.start, encode("reply", self.reply), encode("down", self.down)
        if self.home == "server":
            report = {"trained.x": start}
            jobs: list[Arrays] = [{"job.start": start}, {"job.start": start, "job.drift": start}]
        else:
            report = encode("report", self.no_report)
            jobs = [down]
            if self.needs_base:  # attached before the first merge, and after it
                jobs += [{**down, "start": start}, {**down, **reply}]
        to_server: Schemas = {"report": [report], "decline": [{}], "need_state": [{}], "ack": [{}]}
        return to_server, {"job": jobs, "delivery": [reply]}

    # the server's half of the algorithm ----------------------------------------------------------------
    def server_init(self) -> Server:
        return begin(self.algorithm, self.start)

    def downlink(self, server: Server, t: int) -> Any:
        return self.algorithm.downlink(server.state, self._at_server(t))

    def merge(self, server: Server, total: Any, count: int, t: int) -> tuple[Server, Any]:
        """The new server state and the reply."""
        return aggregate(self.algorithm, server, total, count, self._at_server(t))

    def _at_server(self, t: int) -> ServerView:
        return ServerView(t, self.membership.count(t), self.local.lr_at(t))

    # the clients ---------------------------------------------------------------------------------------
    def at_client(self, client: int, t: int) -> ClientView:
        prob = float("nan") if self.schedule is None else self.schedule.prob(t)[client]
        return ClientView(t=self._scalar(t), p=self._scalar(prob))

    def available(self, clients: list[int], t: int) -> list[int]:
        """Those of the given clients that are available in round t; all, unless absence is simulated."""
        if self.schedule is None:
            return clients
        mask = self.schedule.sample(t)
        return [client for client in clients if mask[client]]

    def planned_job(self, client: int, t: int, state: Any, down: Any) -> dict[str, torch.Tensor]:
        """What a client trains from in round t, where its state is kept at the server."""
        job = self.algorithm.plan(state, down, self.at_client(client, t))
        return {"job.start": job.start} | ({} if job.drift is None else {"job.drift": job.drift})

    def report_of_end(self, client: int, t: int, state: Any, down: Any, end: Vector) -> tuple[Any, Any]:
        """State and report of such a client, from the end of its training."""
        at, done = self.at_client(client, t), Done(end, self.local.steps, self.local.lr_at(t))
        return self.algorithm.report(state, down, self.algorithm.plan(state, down, at), done, at)

    def rebuilt_state(self, start: Vector, merged: int, reply: Any) -> Any:
        """The state of a client that was last merged in round `merged` and received `reply`."""
        algorithm = self.algorithm
        state = algorithm.client_init(start)
        if merged == NEVER:
            return state
        # The state depends only on the round and the reply, so any values will do for the rest of the round.
        t = self._scalar(merged)
        at = ClientView(t, p=torch.full_like(t, 0.5))
        down = algorithm.downlink(algorithm.server_init(start), ServerView(merged, 1, 1.0))
        job = algorithm.plan(state, down, at)
        after = algorithm.report(state, down, job, Done(start, steps=1, lr=1.0), at)[0]
        return algorithm.settle(after, reply, at)

    def _scalar(self, value: float) -> Scalar:
        return self.start.new_full((1,), float(value))
