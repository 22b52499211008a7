"""The auxiliary sequence z_i of the analysis, and the distances between models that the lemmas bound.

Models are rows: ``models`` [m, d] holds x_i^t, the model client i last received, and ``server`` [d] holds x^t, which
the k virtual clients share. M = m + k, for every real k ≥ 0. The sequence belongs to a constant η_l; ``rate`` is the
product η_l η_g.
"""

import numpy as np
import numpy.typing as npt

from fedswe.errors import require
from fedswe.theory.assumption import FloatArray, check_k


def auxiliary_models(
    models: npt.ArrayLike, full_gradients: npt.ArrayLike, staleness: npt.ArrayLike, rate: float, steps: int
) -> FloatArray:
    """z_i^t = x_i^t - η_l η_g s (t - τ_i(t) - 1) ∇F_i(x_i^t) [m, d] (Definition auxiliary sequence).

    ``full_gradients`` [m, d] holds ∇F_i(x_i^t), ``staleness`` [m] t - τ_i(t). Virtual clients have z_i = x^t.
    """
    x, gradients = _rows(models), _rows(full_gradients)
    missed = np.asarray(staleness, dtype=np.float64) - 1.0
    require(
        gradients.shape == x.shape and missed.shape == x.shape[:1],
        f"models {x.shape}, gradients {gradients.shape}, staleness {missed.shape}: one row and one entry per client",
    )
    require(bool((missed >= 0.0).all()), "staleness t - τ_i(t) is at least 1: count from the round before")
    return x - rate * steps * missed[:, None] * gradients


def augmented_consensus_error(models: npt.ArrayLike, server: npt.ArrayLike, k: float) -> float:
    """(1/M) Σ_{i≤M} ‖x_i - x̄‖² over regular and virtual clients around their common mean, as in the lemmas."""
    x, virtual = _rows(models), np.asarray(server, dtype=np.float64)
    total = _total(len(x), k)
    mean = (x.sum(axis=0) + k * virtual) / total
    return float((((x - mean) ** 2).sum() + k * ((virtual - mean) ** 2).sum()) / total)


def approximation_error(models: npt.ArrayLike, auxiliary: npt.ArrayLike, k: float) -> float:
    """(1/M) Σ_{i≤m} ‖x_i - z_i‖²; virtual clients add nothing."""
    x = _rows(models)
    return float(((x - _rows(auxiliary)) ** 2).sum() / _total(len(x), k))


def _rows(models: npt.ArrayLike) -> FloatArray:
    rows = np.asarray(models, dtype=np.float64)  # before any difference is taken: float32 would cancel
    require(rows.ndim == 2 and len(rows), f"models must be a [clients, d] table, got shape {rows.shape}")
    return rows


def _total(clients: int, k: float) -> float:
    check_k(k)
    return clients + k
