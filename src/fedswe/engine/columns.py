"""Additional columns of the history: quantities of the analysis, computed at every evaluation.

A column is a function of the engine's present state, so it neither changes a run nor has to be saved with it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fedswe.algorithms.fedswe import FedSWE
from fedswe.core.algorithm import Algorithm
from fedswe.core.local import Local
from fedswe.core.value import Value
from fedswe.engine.outputs import virtual_clients
from fedswe.errors import require

if TYPE_CHECKING:
    import torch

    from fedswe.engine.base import Engine
    from fedswe.theory.assumption import FloatArray

_CLIENTS_AT_A_TIME = 32  # full gradients read all data of these clients at once


@dataclass(frozen=True)
class Column(Value, ABC):
    """One or more columns of history.csv."""

    title: ClassVar[str]

    def check(self, algorithm: Algorithm, local: Local) -> None:
        """Refuse, in one line, a run for which the quantity is not defined."""
        return

    @abstractmethod
    def values(self, engine: Engine) -> dict[str, float]:
        """The columns by name, after the round that was run last."""


@dataclass(frozen=True)
class Consensus(Column):
    """The distances between the clients' models, computed on the device of the models.

    consensus_clients      (1/m) sum ||x_i - mean||^2 over the m clients
    consensus_augmented    (1/M) sum over clients and k virtual ones, M = m + k
    """

    title: ClassVar[str] = "consensus errors of the clients' models"

    def values(self, engine: Engine) -> dict[str, float]:
        k, m = virtual_clients(engine), engine.m
        models, server = engine.client_models().double(), engine.server_model().double()
        weights = 1.0 if engine.weights is None else models.new_tensor(engine.weights)[:, None]
        mean = (weights * models).mean(0)
        clients = float((weights * (models - mean).square()).sum()) / m
        # k copies of the server's model move the mean by k/M of their distance (parallel axes).
        moved = float((mean - server).square().sum()) * m * k / (m + k) ** 2
        return {"consensus_clients": clients, "consensus_augmented": clients * m / (m + k) + moved}


@dataclass(frozen=True)
class Auxiliary(Column):
    """FedSWE's auxiliary sequence z_i, for a constant local rate.

    approximation_error    (1/M) sum ||x_i - z_i||^2
    consensus_auxiliary    (1/M) sum ||z_i - mean||^2 over clients and virtual ones
    """

    title: ClassVar[str] = "distances of FedSWE's auxiliary sequence"

    def check(self, algorithm: Algorithm, local: Local) -> None:
        require(
            isinstance(algorithm, FedSWE),
            'record.columns: the auxiliary sequence belongs to fedswe and fedawe: leave "auxiliary" out for others',
        )
        require(
            local.schedule == "constant",
            "record.columns: the auxiliary sequence needs a constant local rate: set local.schedule=constant",
        )

        require(local.steps, "record.columns: the auxiliary sequence needs local.steps: epochs differ among clients")

    def values(self, engine: Engine) -> dict[str, float]:
        k = virtual_clients(engine)
        models, server = _float64(engine.client_models()), _float64(engine.server_model())
        z, total = auxiliary(engine, models), engine.m + k
        weights = np.ones((engine.m, 1)) if engine.weights is None else engine.weights[:, None]
        mean = ((weights * z).sum(axis=0) + k * server) / total
        return {
            "approximation_error": float((weights * (models - z) ** 2).sum() / total),  # virtual clients have z_i = x_i
            "consensus_auxiliary": float(
                ((weights * (z - mean) ** 2).sum() + k * ((server - mean) ** 2).sum()) / total
            ),
        }


def auxiliary(engine: Engine, models: FloatArray) -> FloatArray:
    """z_i^t = x_i^t - eta_l eta_g s (t - tau_i(t) - 1) grad F_i(x_i^t) [m, d] of FedSWE, for a constant eta_l."""
    import torch

    staleness = engine.t - engine.last
    gradients = np.zeros_like(models)
    away = np.flatnonzero(staleness > 1)  # the others have z_i = x_i: their gradients are not needed
    for first in range(0, len(away), _CLIENTS_AT_A_TIME):
        ids = away[first : first + _CLIENTS_AT_A_TIME]
        x = torch.as_tensor(models[ids]).to(engine.problem.start)  # the run's own precision, so the same x_i
        gradients[ids] = _float64(engine.problem.full_gradients(x, torch.as_tensor(ids)))
    rate = engine.local.lr * engine.algorithm.lr
    return models - rate * engine.local.steps * (staleness - 1.0)[:, None] * gradients


def _float64(x: torch.Tensor) -> FloatArray:
    return np.asarray(x.detach().double().cpu().numpy())
