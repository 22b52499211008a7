"""The limit on how far (L2) a client may move in one round: deploy.max_norm.

With "auto" a move is judged when the round closes, against the moves of the *other* clients, one of each: the one in
this round, or else its last merged one, unless it was evicted or has left since. The limit is a multiple of their upper
quartile. The factor is their spread, upper over lower quartile, but at least 3 (2 where the server keeps and reuses
what a client sent, as MIFA does) and at most 10. Fewer than a quarter of the others do not change it much, and a client
cannot raise its own limit. A client that returns after an absence starts from an old model (FedSWE), or meets a model
that has forgotten its data: the limit when it was merged last holds for it too. Besides, no move may exceed 100 times
the norm of the model (or sqrt(d), if that is more): the only bound without two other clients. A move below a 1000th of
that norm is never refused: where the others have converged, their moves say little.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from fedswe.core.records import Vector
from fedswe.deploy.ledger_lines import Change, Entry
from fedswe.deploy.protocol import RunProtocol

REFUSALS = 5  # rounds with a refused report of a client and no merged one between them, after which it is evicted
_FACTOR, _FACTOR_KEPT, _LARGEST_FACTOR = 3.0, 2.0, 10.0  # times the upper quartile of the others; see above
_OTHERS = 2  # other clients whose moves must be known
_ABSOLUTE = 100.0  # times the norm of the model, or sqrt(d) if that is more
_SMALL = 1e-5  # of the absolute bound: moves that are never refused
_REASONS = {"norm", "not finite"}  # for which a report is refused by its content


class MoveLimit:
    def __init__(self, max_norm: float | str, kept: bool = False) -> None:
        """`kept`: the server keeps what clients sent."""
        self._max_norm, self._factor = max_norm, _FACTOR_KEPT if kept else _FACTOR
        self._last: dict[int, float] = {}  # client -> its last merged move
        self._then: dict[int, float] = {}  # client -> its limit by the others when it was merged last
        self._first = 0.0  # the median of the first limits, for clients that were never merged
        self._refusals: Counter[int] = Counter()  # rounds with a refused report since a client's last merge

    @classmethod
    def of_run(cls, protocol: RunProtocol, entries: Iterable[Entry], changes: Iterable[Change]) -> MoveLimit:
        """The limit after the rounds of a ledger."""
        limit = cls(protocol.deployment.max_norm, kept=protocol.home == "server")
        following: dict[int, list[Change]] = {}
        for change in changes:
            following.setdefault(change.t, []).append(change)
        for entry in entries:
            limit.update(entry)
            for change in following.get(entry.t + 1, []):
                limit.apply(change)
        return limit

    @property
    def off(self) -> bool:
        return self._max_norm == 0

    def bound(self, model: Vector) -> float:
        """The bound that holds whatever other clients do."""
        if isinstance(self._max_norm, str):
            return _ABSOLUTE * max(float(model.double().norm()), math.sqrt(model.numel()))
        return self._max_norm or math.inf

    def exceeded(self, moves: Mapping[int, float], bound: float) -> dict[int, float]:
        """The clients that moved too far, by the moves of one round; client -> its limit. `bound`: as above."""
        if not isinstance(self._max_norm, str):
            return {}
        limits, found = _limits({**self._last, **moves}, self._factor), {}
        for client in sorted(moves):
            limit = max(limits.get(client, math.inf), self._then.get(client, self._first), _SMALL * bound)
            if moves[client] > limit:
                found[client] = limit
        return found

    def update(self, entry: Entry) -> None:
        """Apply a committed round."""
        self._last |= entry.moves
        limits = _limits(self._last, self._factor)
        self._then |= {client: limits[client] for client in entry.moves if client in limits}
        if not self._first and limits:
            self._first = float(np.median(list(limits.values())))
        for client, reasons in entry.rejected.items():
            self._refusals[client] += bool(_REASONS & reasons.keys())
        for client in entry.merged:
            self._refusals.pop(client, None)

    def apply(self, change: Change) -> None:
        """Apply a decision about a client. The moves of a client that is not asked any more say nothing of others."""
        self._refusals.pop(change.client, None)
        if change.action in ("evict", "leave"):
            self._last.pop(change.client, None)

    def refused_often(self) -> set[int]:
        return {client for client, rounds in self._refusals.items() if rounds >= REFUSALS and client >= 0}


def _limits(moves: Mapping[int, float], factor: float) -> dict[int, float]:
    """For each client, the limit by the moves of the others; empty if too few are known."""
    if len(moves) <= _OTHERS:
        return {}
    clients = sorted(moves, key=moves.__getitem__)
    ordered = [moves[client] for client in clients]
    # Rounded up: with up to four others the upper quartile is the largest move, and the lowest move never counts.
    low, high = (math.ceil((len(ordered) - 2) * share) for share in (0.25, 0.75))
    found = {}
    for place, client in enumerate(clients):
        # Without the client itself, all that is after it moves up by one place.
        lower, upper = ordered[low + (low >= place)], ordered[high + (high >= place)]
        spread = upper / lower if lower > 0 else _LARGEST_FACTOR
        found[client] = upper * min(max(spread, factor), _LARGEST_FACTOR)
    return found
