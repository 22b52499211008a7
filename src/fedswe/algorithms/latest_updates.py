"""Algorithms whose server keeps the mean of the latest updates of all clients."""

from __future__ import annotations

from dataclasses import dataclass

from fedswe.core.algorithm import Algorithm
from fedswe.core.records import Vector


@dataclass(frozen=True)
class Server:
    x: Vector
    mean: Vector  # (1/m) sum of all latest updates, 0 for a client before its first


@dataclass(frozen=True)
class LatestUpdates(Algorithm):
    """Each client keeps its latest update and sends how it changed."""

    def server_init(self, x0: Vector) -> Server:
        return Server(x0, mean=x0.new_zeros(x0.shape))
