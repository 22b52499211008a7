"""Which client holds which samples: the Dirichlet partition of the released code."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedswe.availability.schedule import Floats

Indices = npt.NDArray[np.int64]


def dirichlet_shares(
    rng: np.random.Generator | np.random.RandomState, alpha: float, clients: int, classes: int
) -> Floats:
    """nu_i ~ Dirichlet(alpha, ..., alpha) for each client."""
    shares = np.asarray(rng.dirichlet(np.full(classes, alpha), clients))
    # At tiny alpha the gamma variates underflow to 0/0; the limit of the law is one class per client.
    lost = ~np.isfinite(shares).all(axis=1)
    if lost.any():
        shares[lost] = np.eye(classes)[rng.permutation(clients)[: lost.sum()] % classes]
    return shares


def partition(labels: npt.NDArray[np.integer], shares: Floats) -> list[Indices]:
    """Cut each class, in data-set order, among the clients in proportion to their shares of it.

    Boundaries are round(N_c * cumulative share); every sample is used exactly once, and volumes differ. It cannot
    fail to terminate: nothing is drawn again.
    """
    clients, classes = shares.shape
    pieces: list[list[Indices]] = [[] for _ in range(clients)]
    for c in range(classes):
        members = np.flatnonzero(labels == c)
        weight = shares[:, c]
        # A class that nobody drew any of is cut evenly, so that its samples are not lost.
        weight = weight if weight.sum() > 0 else np.ones(clients)
        bounds = np.round(len(members) * np.cumsum(weight) / weight.sum()).astype(np.int64)
        bounds[-1] = len(members)
        for piece, part in zip(pieces, np.split(members, bounds[:-1]), strict=True):
            piece.append(part)
    return [np.sort(np.concatenate(piece)) for piece in pieces]


def realised_shares(labels: npt.NDArray[np.integer], parts: list[Indices], classes: int) -> Floats:
    """The label distribution of what each client got."""
    counts = np.stack([np.bincount(labels[part], minlength=classes) for part in parts])
    return np.asarray(counts / np.maximum(counts.sum(1, keepdims=True), 1))
