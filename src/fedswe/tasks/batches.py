"""The samples that clients train on in a round, and their augmentation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from fedswe.tasks.augment import Augment


@dataclass(frozen=True)
class Batch:
    """Samples of n clients for one step; weight is 1/(batch size) on samples and 0 on padding."""

    index: torch.Tensor  # [n, B]
    weight: torch.Tensor  # [n, B]
    augment: Augment | None = None  # [n, B]
    dropout: torch.Tensor | None = None  # [n], random bits that name the units to leave out
    clients: torch.Tensor | None = None  # [n], where index is a position in each client's own samples

    def rows(self, which: torch.Tensor, width: int) -> Batch:
        """Some of the n clients, their batches cut to a width."""
        return Batch(
            self.index[which, :width],
            self.weight[which, :width],
            None if self.augment is None else self.augment[which][(slice(None), slice(width))],
            None if self.dropout is None else self.dropout[which],
            None if self.clients is None else self.clients[which.to(self.clients.device)],
        )

    def client(self, i: int) -> Batch:
        """The batch of one of the n clients."""
        return Batch(
            self.index[i],
            self.weight[i],
            None if self.augment is None else self.augment[i],
            None if self.dropout is None else self.dropout[i],
            None if self.clients is None else self.clients[i],
        )


@dataclass(frozen=True)
class Batches:
    """The batches of a round, kept together: [n, steps, B], weight [n, B], dropout [n, steps]."""

    index: torch.Tensor
    weight: torch.Tensor
    augment: Augment | None
    dropout: torch.Tensor | None
    clients: torch.Tensor | None = None

    @staticmethod
    def joined(drawn: list[Batches]) -> Batches:
        """The draws of several runs one after another, narrow batches padded with weight 0."""
        width = max(b.index.shape[2] for b in drawn)

        def pad(x: torch.Tensor) -> torch.Tensor:
            return F.pad(x, (0, width - x.shape[-1]))

        changes = [b.augment for b in drawn if b.augment is not None]
        dropout = [b.dropout for b in drawn if b.dropout is not None]
        return Batches(
            torch.cat([pad(b.index) for b in drawn]),
            torch.cat([pad(b.weight) for b in drawn]),
            Augment.joined(changes, pad) if changes else None,
            torch.cat(dropout) if dropout else None,
        )

    def __getitem__(self, rows: slice) -> Batches:
        return Batches(
            self.index[rows],
            self.weight[rows],
            None if self.augment is None else self.augment[rows],
            None if self.dropout is None else self.dropout[rows],
            None if self.clients is None else self.clients[rows],
        )

    def __iter__(self) -> Iterator[Batch]:
        for step in range(self.index.shape[1]):
            here = (slice(None), step)
            yield Batch(
                self.index[here],
                self.weight,
                None if self.augment is None else self.augment[here],
                None if self.dropout is None else self.dropout[here],
                self.clients,
            )
