"""The simulator: all available clients of a round at once, as stacked rows on one device."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from fedswe.core.aggregation import aggregate
from fedswe.core.algorithm import ClientView, Done, received
from fedswe.core.records import Vector, parts, take, times, to_device, total
from fedswe.engine import solvers
from fedswe.engine.base import Attendance, Engine
from fedswe.engine.shared_rows import SharedRows
from fedswe.engine.work import Ids, Work

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
        self.rows = SharedRows(self.m, {**wide, _RECEIVED: x0}, self.weights)

    def step(self) -> Attendance:
        return step_together([self])[0]

    def round(self) -> Generator[Work, Done, Attendance]:
        """Round t in two halves: it yields the local training to be done, and continues with the result."""
        algorithm, server_view = self.algorithm, self._at_server()
        available, chosen = self._select()
        down = algorithm.downlink(self.server.state, server_view)
        working = self._working(chosen)
        if not len(working):
            self.server, _ = aggregate(algorithm, self.server, self._empty, 0, server_view)
            return self._advance(available, chosen)
        before, at = self._client_state(working), self._at_clients(working)
        job = algorithm.plan(before, down, at)
        done = yield Work(self.problem, job, working, self.t, self.local)
        after, reports = algorithm.report(before, down, job, done, at)
        if len(chosen) < len(working):  # some trained while absent: they keep their work and send nothing
            self._write(working, before, after)
            rows = to_device(chosen, done.end.device)
            after, reports = take(after, rows), take(reports, rows)
            before, at = after, ClientView(at.t, at.p[rows])
        if self.weights is not None:
            reports = times(reports, to_device(self.weights[chosen, None], done.end.device).to(done.end.dtype))
        summed = total(reports, len(chosen)) if len(chosen) else self._empty
        self.server, reply = aggregate(algorithm, self.server, summed, self._count(chosen), server_view)
        if len(chosen):
            self._write(chosen, before, algorithm.settle(after, reply, at))
            self.rows.write(_RECEIVED, chosen, received(down, reply))
        return self._advance(available, chosen)

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


def step_together(engines: Sequence[Engine]) -> list[Attendance]:
    """One round of each engine, their local training as one stack: this fills a GPU, and a CPU's vector units."""
    rounds = {i: engine.round() for i, engine in enumerate(engines) if isinstance(engine, BatchedEngine)}
    seen: dict[int, Attendance] = {i: engine.step() for i, engine in enumerate(engines) if i not in rounds}
    works: dict[int, Work] = {}
    # Bids for seats wait for a GPU to finish the round before. Engines without seats start first and draw meanwhile.
    for i in sorted(rounds, key=lambda i: engines[i].algorithm.seats()):
        try:
            works[i] = next(rounds[i])
            works[i].batches  # noqa: B018
        except StopIteration as ended:  # no client trained
            seen[i] = ended.value
    works = dict(sorted(works.items()))
    for i, done in zip(works, solvers.train_all(list(works.values())), strict=True):
        try:
            rounds[i].send(done)
        except StopIteration as ended:
            seen[i] = ended.value
    return [seen[i] for i in range(len(engines))]
