"""Which client holds which samples: the Dirichlet partition of the released code, and others in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fedswe.availability.schedule import Floats
from fedswe.core import keys
from fedswe.errors import FedsweError, require

Indices = npt.NDArray[np.int64]
Labels = npt.NDArray[np.integer]
Owners = npt.NDArray[np.bool_]  # [clients, classes]: which classes a client may hold
Partition = Literal["dirichlet", "two_groups", "shards", "uneven", "iid"]
Groups = Sequence[str] | Mapping[Any, str]  # the name of each client's group, or names by client id
Rng = np.random.Generator | np.random.RandomState


@dataclass(frozen=True)
class Parts:
    """The samples of each client, and the label shares they were drawn with and have; None without labels."""

    parts: list[Indices]
    drawn: Floats | None = None
    realised: Floats | None = None

    @classmethod
    def of(cls, parts: list[Indices], labels: Labels | None, classes: int, drawn: Floats | None = None) -> Parts:
        """With the realised shares, and as drawn the same where none are."""
        if labels is None:
            return cls(parts)
        realised = realised_shares(labels, parts, classes)
        return cls(parts, realised if drawn is None else drawn, realised)

    @property
    def sizes(self) -> Indices:
        """The number of samples of each client."""
        return np.array([len(part) for part in self.parts])


def divide(
    given: Indices, labels: Labels | None, m: int, kind: Partition, alpha: float, shards: int, rng: Rng, classes: int
) -> Parts:
    """Divide the given samples among m clients. Labels are those of all samples; None: targets are not classes.

    dirichlet    each class in proportion to shares that every client draws from Dirichlet(alpha)
    two_groups   the same, and half of the clients own half of the classes, the rest the others
    shards       samples sorted by label, cut into m * shards pieces; every client gets `shards` random ones
    uneven       random samples, as many as a draw of all clients' shares from Dirichlet(alpha) says, at least one
    iid          random samples, as many for each client
    """
    require(m <= len(given), f"there are {len(given)} training samples for {m} clients: lower task.clients")
    if kind in ("uneven", "iid"):
        shares = np.full(m, 1 / m) if kind == "iid" else dirichlet_shares(rng, alpha, 1, m)[0]
        parts, drawn = _random_parts(given, shares, rng), None
    elif labels is None:
        raise FedsweError(
            f'partition = "{kind}" needs targets that are class labels: use "uneven" or "iid", or give client ids'
        )
    elif kind == "shards":
        parts, drawn = _sorted_pieces(given, labels[given], m, shards, rng), None
    else:
        owners = two_groups(m, classes) if kind == "two_groups" else None
        drawn = dirichlet_shares(rng, alpha, m, classes) if owners is None else grouped_shares(rng, alpha, owners)
        parts = [given[part] for part in partition(labels[given], drawn, owners)]
        _refuse_empty(parts, labels[given], m)
    return Parts.of(parts, labels, classes, drawn)


def _random_parts(given: Indices, shares: Floats, rng: Rng) -> list[Indices]:
    """Random samples, as many for each client as its share says, at least one."""
    ends = np.round((len(given) - len(shares)) * np.cumsum(shares)).astype(np.int64) + np.arange(1, len(shares) + 1)
    return [np.sort(part) for part in np.split(rng.permutation(given), ends[:-1])]


def _sorted_pieces(given: Indices, labels: Labels, clients: int, shards: int, rng: Rng) -> list[Indices]:
    """Random pieces of the samples sorted by their labels, the same number for each client."""
    wanted = f"{clients} clients with {shards} shards each"
    require(clients * shards <= len(given), f"there are {len(given)} training samples for {wanted}: lower either")
    pieces = np.array_split(given[np.argsort(labels, kind="stable")], clients * shards)
    dealt = rng.permutation(clients * shards).reshape(clients, shards)
    return [np.sort(np.concatenate([pieces[i] for i in row])) for row in dealt]


def _refuse_empty(parts: list[Indices], labels: Labels, clients: int) -> None:
    empty = [i for i, part in enumerate(parts) if not len(part)]
    if empty:
        # Equal shares (large alpha) give every client a sample only of classes with a sample for each client. Where no
        # class has that many, fewer clients share each class at a small alpha, and more of them get a sample.
        even = np.bincount(labels).max() >= clients
        change = "lower task.clients or raise task.alpha" if even else "lower task.clients or task.alpha"
        found = f"client {empty[0]} has no data ({len(empty)} of {clients} clients are empty)"
        raise FedsweError(f"{found}: {change}, or try another seed")


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


def partition(labels: Labels, shares: Floats, owners: Owners | None = None) -> list[Indices]:
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


def realised_shares(labels: Labels, parts: list[Indices], classes: int) -> Floats:
    """The label distribution of what each client got."""
    counts = np.stack([np.bincount(labels[part], minlength=classes) for part in parts])
    return np.asarray(counts / np.maximum(counts.sum(1, keepdims=True), 1))


def held_out(samples: int, fraction: float) -> tuple[Indices, Indices]:
    """The training samples of the clients and the held-out ones; the same for every seed, like a test set."""
    order = keys.generator(0, "held out").permutation(samples)
    size = round(fraction * samples)
    return np.sort(order[size:]), np.sort(order[:size])


def clients_by_group(groups: Groups | None, ids: Sequence[Any]) -> dict[str, Indices]:
    """The clients of each group, by its name; a mapping names the clients by their ids."""
    if groups is None:
        return {}
    require(not isinstance(groups, str), "groups must be a list with a name per client, or a mapping from client ids")
    if isinstance(groups, Mapping):
        missing = [name for name in ids if name not in groups]
        require(not missing, f"groups: client {missing[:1]} has no group")
        groups = [groups[name] for name in ids]
    require(len(groups) == len(ids), f"groups names {len(groups)} groups for {len(ids)} clients: give one per client")
    names = [str(name) for name in groups]
    for name in names:
        require(name.replace("-", "_").isidentifier(), f"group {name!r} cannot be part of a column: use letters and _")
    return {name: np.flatnonzero(np.array(names) == name) for name in dict.fromkeys(names)}
