"""The server's half of a round: merge the sum of the reports, apply the chain to the step, move the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fedswe.core import transforms
from fedswe.core.algorithm import Algorithm, ServerView
from fedswe.core.records import Vector, parts

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Server:
    """All that the server keeps: the algorithm's state, and the states of the transforms in its chain."""

    state: Any
    chain: tuple[Any, ...] = ()

    @property
    def model(self) -> Vector:
        """x^t."""
        return self.state.x  # type: ignore[no-any-return]

    def tensors(self) -> dict[str, torch.Tensor]:
        """Everything by name, for checkpoints."""
        named = parts(self.state)
        for i, state in enumerate(self.chain):
            named |= {f"chain.{i}.{name}": value for name, value in parts(state).items()}
        return named

    def with_tensors(self, named: Mapping[str, torch.Tensor]) -> Server:
        """The same records with these values; a missing name is a KeyError."""
        chain = [replace(s, **{n: named[f"chain.{i}.{n}"] for n in parts(s)}) for i, s in enumerate(self.chain)]
        return Server(replace(self.state, **{n: named[n] for n in parts(self.state)}), tuple(chain))


def begin(algorithm: Algorithm, x0: Vector) -> Server:
    """The server before round 0."""
    return Server(algorithm.server_init(x0), transforms.begin(algorithm.transforms, x0))


def aggregate(algorithm: Algorithm, server: Server, total: Any, count: float, at: ServerView) -> tuple[Server, Any]:
    """The server after the round, and the reply to the clients that reported."""
    update = algorithm.merge(server.state, total, count, at)
    x, chain = update.base, server.chain
    if update.step is not None and not chain:
        x = update.base + algorithm.lr / update.over * update.step
    elif update.step is not None:
        v, chain = transforms.apply(algorithm.transforms, -(1.0 / update.over * update.step), chain, x, x)
        x = update.base - algorithm.lr * v
    state, reply = algorithm.finish(replace(update.state, x=x), count, at)
    return Server(state, chain), reply
