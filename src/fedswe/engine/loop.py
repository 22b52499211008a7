"""The readable engine: one client at a time. The batched engine is tested against it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from fedswe.core.aggregation import aggregate
from fedswe.core.algorithm import ClientView, received
from fedswe.core.records import Vector, add, parts, times
from fedswe.engine.base import Attendance, Engine
from fedswe.engine.work import Ids, Work, train_one


class LoopEngine(Engine):
    """Each client is a record of its own; nothing is stacked, nothing is shared but by reference."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        x0 = self.problem.start
        self.clients: list[Any] = [self.algorithm.client_init(x0) for _ in range(self.m)]
        self.models: list[Vector] = [x0] * self.m  # the model each client last received

    def step(self) -> Attendance:
        algorithm, server_view = self.algorithm, self._at_server()
        available, chosen = self._select()
        down = algorithm.downlink(self.server.state, server_view)
        total = self._empty
        reporting = {int(i) for i in chosen}
        for i in self._working(chosen):
            at = self._at_client(i)
            job = algorithm.plan(self.clients[i], down, at)
            done = train_one(Work(self.problem, job, np.array([i]), self.t, self.local))
            self.clients[i], report = algorithm.report(self.clients[i], down, job, done, at)
            if i in reporting:
                total = add(total, report if self.weights is None else times(report, float(self.weights[i])))
        self.server, reply = aggregate(algorithm, self.server, total, self._count(chosen), server_view)
        for i in chosen:
            self.clients[i] = algorithm.settle(self.clients[i], reply, self._at_client(i))
            self.models[i] = received(down, reply)
        return self._advance(available, chosen)

    def _at_client(self, i: int) -> ClientView:
        return ClientView(t=self._scalar(self.t), p=self._scalar(self.timeline.prob(self.t)[i]))

    def _client_state(self, ids: Ids) -> Any:
        return self._stacked([self.clients[i] for i in ids])

    def _stacked(self, records: list[Any]) -> Any:
        names = parts(records[0])
        return replace(records[0], **{n: torch.stack([getattr(r, n) for r in records]) for n in names})

    def client_mean(self) -> Vector:
        models = torch.stack(self.models)
        return models.mean(0) if self.weights is None else torch.as_tensor(self.weights).to(models) @ models / self.m

    def client_models(self) -> Vector:
        return torch.stack(self.models)

    def _clients_out(self) -> dict[str, torch.Tensor]:
        stacked = {f"clients.{n}": v for n, v in parts(self._stacked(self.clients)).items()}
        return {**stacked, "models": torch.stack(self.models)}

    def _clients_in(self, state: Mapping[str, torch.Tensor]) -> None:
        device = self.problem.start.device
        stacked = {n: state[f"clients.{n}"].to(device) for n in parts(self.clients[0])}
        for i, client in enumerate(self.clients):
            self.clients[i] = replace(client, **{n: v[i].clone() for n, v in stacked.items()})
        self.models = list(state["models"].to(device).clone())
