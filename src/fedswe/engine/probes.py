"""Read-only observers of a run: quantities of the analysis, one row at every evaluation.

A probe is a function of the engine's present state, so it neither changes a run nor has to be saved with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch

from fedswe.engine.base import Engine
from fedswe.theory import sequences
from fedswe.theory.assumption import FloatArray, IntArray

Probe = Literal["consensus", "auxiliary"]

_CLIENTS_AT_A_TIME = 32  # full gradients read all data of these clients at once


def observe(engine: Engine, probes: Sequence[Probe]) -> dict[str, float]:
    """The columns of the probes, in the order asked for.

    consensus   consensus_clients      (1/m) sum ||x_i - mean||^2 over the m clients
                consensus_augmented    (1/M) sum over clients and k virtual ones, M = m + k
    auxiliary   approximation_error    (1/M) sum ||x_i - z_i||^2
                consensus_auxiliary    (1/M) sum ||z_i - mean||^2 over clients and virtual ones
    """
    if not probes:
        return {}
    k = engine.algorithm.virtual_clients()
    columns: dict[str, float] = {}
    for probe in probes:
        if probe == "consensus":
            columns |= consensus(engine, k)
        else:
            models, server = _float64(engine.client_models()), _float64(engine.server_model())
            z = auxiliary(engine, models)
            columns["approximation_error"] = sequences.approximation_error(models, z, k)
            columns["consensus_auxiliary"] = sequences.augmented_consensus_error(z, server, k)
    return columns


def consensus(engine: Engine, k: float) -> dict[str, float]:
    """Both errors where the models are: m large models need not travel from a GPU for two numbers."""
    models, server, m = engine.client_models().double(), engine.server_model().double(), engine.m
    mean = models.mean(0)
    clients = float((models - mean).square().sum()) / m
    # k copies of the server's model move the mean by k/M of their distance (parallel axes).
    moved = float((mean - server).square().sum()) * m * k / (m + k) ** 2
    return {"consensus_clients": clients, "consensus_augmented": clients * m / (m + k) + moved}


def auxiliary(engine: Engine, models: FloatArray) -> FloatArray:
    """z_i^t of FedSWE for the clients' models x_i^t [m, d], with eta_l the constant local rate."""
    staleness = engine.t - engine.last
    gradients = np.zeros_like(models)
    away = np.flatnonzero(staleness > 1)  # the others have z_i = x_i: their gradients are not needed
    for first in range(0, len(away), _CLIENTS_AT_A_TIME):
        ids = away[first : first + _CLIENTS_AT_A_TIME]
        gradients[ids] = _full_gradients(engine, models[ids], ids)
    rate = engine.local.lr * engine.algorithm.lr
    return sequences.auxiliary_models(models, gradients, staleness, rate, engine.local.steps)


def _full_gradients(engine: Engine, models: FloatArray, ids: IntArray) -> FloatArray:
    x = torch.as_tensor(models).to(engine.problem.start)  # the run's own precision, so the same x_i
    return _float64(engine.problem.full_gradients(x, torch.as_tensor(ids)))


def _float64(x: torch.Tensor) -> FloatArray:
    return np.asarray(x.detach().to("cpu", torch.float64).numpy())
