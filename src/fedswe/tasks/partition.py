"""Which client holds which samples: the Dirichlet partition of the released code, and its form with two groups."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from fedswe.availability.schedule import Floats
from fedswe.core import keys
from fedswe.errors import require

Indices = npt.NDArray[np.int64]
Owners = npt.NDArray[np.bool_]  # [clients, classes]: which classes a client may hold
Partition = Literal["dirichlet", "two_groups"]
Rng = np.random.Generator | np.random.RandomState


def dirichlet_shares(rng: Rng, alpha: float, clients: int, classes: int) -> Floats:
    """nu_i ~ Dirichlet(alpha, ..., alpha) for each client."""
    shares = np.asarray(rng.dirichlet(np.full(classes, alpha), clients))
    # At tiny alpha the gamma variates underflow to 0/0; the limit of the law is one class per client.
    lost = ~np.isfinite(shares).all(axis=1)
    if lost.any():
        shares[lost] = np.eye(classes)[rng.permutation(clients)[: lost.sum()] % classes]
    return shares


def two_groups(clients: int, classes: int) -> Owners:
    """The first half of the clients owns the first half of the classes, the rest the others.

    Of an odd number of clients or classes, the first half has one more, as in the availability model `alternating`.
    """
    require(clients >= 2, f'partition = "two_groups" needs at least 2 clients, not {clients}')
    require(classes >= 2, f'partition = "two_groups" needs at least 2 classes, not {classes}')
    first_clients = np.arange(clients) < (clients + 1) // 2
    first_classes = np.arange(classes) < (classes + 1) // 2
    return np.asarray(first_clients[:, None] == first_classes)


def grouped_shares(rng: Rng, alpha: float, owners: Owners) -> Floats:
    """Dirichlet shares over the classes a client owns, 0 on the others, drawn group by group."""
    shares = np.zeros(owners.shape)
    for group in np.unique(owners, axis=0)[::-1]:  # the owners of class 0 come first
        members = np.flatnonzero((owners == group).all(axis=1))
        shares[np.ix_(members, group)] = dirichlet_shares(rng, alpha, len(members), int(group.sum()))
    return shares


def partition(labels: npt.NDArray[np.integer], shares: Floats, owners: Owners | None = None) -> list[Indices]:
    """Cut each class, in data-set order, among the clients in proportion to their shares of it.

    Boundaries are round(N_c * cumulative share); every sample is used exactly once, and clients differ in size.
    """
    clients, classes = shares.shape
    pieces: list[list[Indices]] = [[] for _ in range(clients)]
    for c in range(classes):
        members = np.flatnonzero(labels == c)
        weight = shares[:, c]
        # A class of which no client drew a share is cut evenly among its owners, so that its samples are not lost.
        if not weight.sum() > 0:
            weight = np.ones(clients) if owners is None else owners[:, c].astype(np.float64)
        bounds = np.round(len(members) * np.cumsum(weight) / weight.sum()).astype(np.int64)
        bounds[-1] = len(members)
        for piece, part in zip(pieces, np.split(members, bounds[:-1]), strict=True):
            piece.append(part)
    return [np.sort(np.concatenate(piece)) for piece in pieces]


def realised_shares(labels: npt.NDArray[np.integer], parts: list[Indices], classes: int) -> Floats:
    """The label distribution of what each client got."""
    counts = np.stack([np.bincount(labels[part], minlength=classes) for part in parts])
    return np.asarray(counts / np.maximum(counts.sum(1, keepdims=True), 1))


def held_out(samples: int, fraction: float) -> tuple[Indices, Indices]:
    """The training samples of the clients and the held-out ones; the same for every seed, like a test set."""
    order = keys.generator(0, "held out").permutation(samples)
    size = round(fraction * samples)
    return np.sort(order[size:]), np.sort(order[:size])
