"""The simulator: all available clients of a round at once, as stacked rows on one device."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from fedswe.core.algorithm import ClientView, Done
from fedswe.core.records import Vector, parts, take, total
from fedswe.core.transfer import to_device
from fedswe.engine.base import Engine, Ids
from fedswe.engine.shared_rows import SharedRows
from fedswe.engine.work import Work

_RECEIVED = "received"  # the column of the model each client last received


class BatchedEngine(Engine):
    """Gathers the rows of the clients at work, runs the algorithm on the stack, scatters them back.

    Cost follows the number of clients at work; rows of absent clients are not touched.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        x0 = self.problem.start
        self._record = self.algorithm.client_init(x0)
        fields = parts(self._record)
        wide = {n: v for n, v in fields.items() if v.shape[-1] == x0.shape[-1]}
        # The scalars of all clients, [m, 1]; vectors share rows.
        self.scalars = {n: v.expand(self.m, 1).clone() for n, v in fields.items() if n not in wide}
        self.rows = SharedRows(self.m, {**wide, _RECEIVED: x0})

    def _round(self, chosen: Ids) -> Generator[Work, Done, None]:
        algorithm, server_view = self.algorithm, self._at_server()
        down = algorithm.downlink(self.server, server_view)
        working = self._working(chosen)
        if not len(working):
            self.server, _ = algorithm.merge(self.server, self._nobody, 0, server_view)
            return
        before, at = self._client_state(working), self._at_clients(working)
        job = algorithm.plan(before, down, at)
        done = yield Work(self.problem, job, working, self.t, self.local)
        after, reports = algorithm.report(before, down, job, done, at)
        if len(chosen) < len(working):  # some trained while absent: they keep their work and send nothing
            self._write(working, before, after)
            rows = to_device(chosen, done.end.device)
            after, reports = take(after, rows), take(reports, rows)
            before, at = after, ClientView(at.t, at.p[rows])
        summed = total(reports, len(chosen)) if len(chosen) else self._nobody
        self.server, reply = algorithm.merge(self.server, summed, len(chosen), server_view)
        if len(chosen):
            self._write(chosen, before, algorithm.settle(after, reply, at))
            self.rows.write(_RECEIVED, chosen, algorithm.received(down, reply))

    def _client_state(self, ids: Ids) -> Any:
        rows = to_device(ids, self.problem.start.device)
        values = {n: v[rows] for n, v in self.scalars.items()}
        names = parts(self._record).keys() - values.keys()
        return replace(self._record, **values, **{n: self.rows.read(n, ids) for n in names})

    def _write(self, ids: Ids, before: Any, after: Any) -> None:
        old = parts(before)
        for name, value in parts(after).items():
            if value is old[name]:
                continue  # unchanged: its row stays shared
            if name in self.scalars:
                self.scalars[name][to_device(ids, value.device)] = value
            else:
                self.rows.write(name, ids, value)

    def client_mean(self) -> Vector:
        return self.rows.mean(_RECEIVED)

    def client_models(self) -> Vector:
        return self.rows.read(_RECEIVED, np.arange(self.m))

    def _clients_out(self) -> dict[str, torch.Tensor]:
        return {**{f"scalars.{n}": v for n, v in self.scalars.items()}, **self.rows.state()}

    def _clients_in(self, state: Mapping[str, torch.Tensor]) -> None:
        device = self.problem.start.device
        self.scalars = {n: state[f"scalars.{n}"].to(device) for n in self.scalars}
        self.rows.load(state)
