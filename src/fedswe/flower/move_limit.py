"""How far (L2) a client may move in one round: judged by the moves of the others, from the first round on.

A move is judged against the moves of the *other* clients, one of each: the one in this round, or else its last merged
one. The limit is a multiple of their upper quartile. The factor is their spread, upper over lower quartile, but at
least 3 (2 where the rule reuses what a client sent, as MIFA does, and there are five others) and at most 10. Fewer than
a quarter of the others do not change it much, and a client cannot raise its own limit. A client that returns after an
absence starts from an old model (FedSWE), or meets a model that has forgotten its data: the limit when it was merged
last holds for it too. Besides, no move may exceed 100 times the norm of the model (or sqrt(d), if that is more): the
only bound without two other clients. A move below a 1000th of that norm is never refused: where the others have
converged, their moves say little.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import numpy as np

from fedswe.core.records import Vector

_FACTOR, _FACTOR_KEPT, _LARGEST_FACTOR = 3.0, 2.0, 10.0  # times the upper quartile of the others
_FEW = 5  # others with fewer of whom the factor is 3 in any case: they may be honest and unlike each other
_OTHERS = 2  # other clients whose moves must be known
_ABSOLUTE = 100.0  # times the norm of the model, or sqrt(d) if that is more
_SMALL = 1e-5  # of the absolute bound: moves that are never refused


class MoveLimit:
    def __init__(self, kept: bool) -> None:
        """`kept`: the rule reuses what clients sent."""
        self._factor = _FACTOR_KEPT if kept else _FACTOR
        self._last: dict[str, float] = {}  # client -> its last merged move
        self._then: dict[str, float] = {}  # client -> its limit by the others when it was merged last
        self._first = 0.0  # the median of the first limits, for clients that were never merged

    def exceeded(self, moves: Mapping[str, float], model: Vector) -> dict[str, float]:
        """The clients that moved too far, by the moves of one round; client -> its limit."""
        bound = _ABSOLUTE * max(float(model.double().norm()), math.sqrt(model.numel()))
        possible = {client: move for client, move in moves.items() if move <= bound}  # a NaN is not
        limits = _limits({**self._last, **possible}, self._factor)
        found = dict.fromkeys(moves.keys() - possible.keys(), bound)
        for client, move in possible.items():
            limit = max(limits.get(client, math.inf), self._then.get(client, self._first), _SMALL * bound)
            if move > limit:
                found[client] = limit
        return found

    def update(self, moves: Mapping[str, float], removed: Collection[str] = ()) -> None:
        """Take in the merged moves of a round. A client that is not asked any more says nothing of others."""
        self._last = {client: move for client, move in {**self._last, **moves}.items() if client not in removed}
        limits = _limits(self._last, self._factor)
        self._then |= {client: limits[client] for client in moves if client in limits}
        if not self._first and limits:
            self._first = float(np.median(list(limits.values())))


def _limits(moves: Mapping[str, float], factor: float) -> dict[str, float]:
    """For each client, the limit by the moves of the others; empty if too few are known."""
    if len(moves) <= _OTHERS:
        return {}
    clients = sorted(moves, key=moves.__getitem__)
    ordered = [moves[client] for client in clients]
    factor = factor if len(clients) > _FEW else _FACTOR
    # Rounded up: with up to four others the upper quartile is the largest move, and the lowest move never counts.
    low, high = (math.ceil((len(ordered) - 2) * share) for share in (0.25, 0.75))
    found = {}
    for place, client in enumerate(clients):
        # Without the client itself, all that is after it moves up by one place.
        lower, upper = ordered[low + (low >= place)], ordered[high + (high >= place)]
        spread = upper / lower if lower > 0 else _LARGEST_FACTOR
        found[client] = upper * min(max(spread, factor), _LARGEST_FACTOR)
    return found
