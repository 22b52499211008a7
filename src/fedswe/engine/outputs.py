"""The models a run is judged by: server, client mean, augmented mean, exponential average."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

import torch

from fedswe.core.algorithm import AnyAlgorithm
from fedswe.core.records import Vector

Output = Literal["server", "client_mean", "augmented_mean", "ema"]


class Evaluated(Protocol):
    """What outputs are computed from: an engine, or the server of a deployment."""

    algorithm: AnyAlgorithm
    m: int
    t: int

    def server_model(self) -> Vector: ...

    def client_mean(self) -> Vector: ...


class Outputs:
    """Names to models, for the names a run asked for."""

    def __init__(self, engine: Evaluated, names: Sequence[Output], decay: float) -> None:
        self._engine, self._names, self._decay = engine, names, decay
        self._ema = engine.server_model() if "ema" in names else None

    def after_round(self) -> None:
        """Take the new server model into the exponential average."""
        if self._ema is not None:
            self._ema = torch.lerp(self._engine.server_model(), self._ema, self._decay)

    def models(self) -> dict[str, Vector]:
        return {name: self._model(name) for name in self._names}

    def _model(self, name: Output) -> Vector:
        if name == "ema":
            assert self._ema is not None
            return self._ema
        if name == "server":
            return self._engine.server_model()
        mean = self._engine.client_mean()
        if name == "client_mean":
            return mean
        m, k = self._engine.m, self._engine.algorithm.virtual_clients()
        return (m * mean + k * self._engine.server_model()) / (m + k)

    def state(self) -> dict[str, torch.Tensor]:
        return {} if self._ema is None else {"ema": self._ema}

    def load(self, state: Mapping[str, torch.Tensor]) -> None:
        if self._ema is not None:
            self._ema = state["ema"].to(self._ema)
