"""What is tuned, for every rule alike, and the search for it.

A trial is a local rate, a server rate, momentum, a warm-up and a schedule. The search goes through these coordinates
once, in the order of `Search`, and keeps the best value of each; the local rate comes first, and again last, if
trials are left. While the best rate is the smallest or the largest tried, the next one is tried too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

_STEP = 2.0  # between neighbouring rates
_FURTHER = 2  # rates beyond those of the scale, before the other coordinates


@dataclass(frozen=True)
class Trial:
    rate: float  # local.lr
    server_rate: float = 1.0  # factor of the rule's own algorithm.lr
    momentum: float = 0.0  # of the rule's steps; 0 is none
    warmup: float = 0.1  # share of the rounds in which the server's rate grows; 0 is none
    schedule: Literal["inverse_sqrt", "constant"] = "inverse_sqrt"  # of the local rate

    @property
    def name(self) -> str:
        """As text, also in file names: what is not the default is said."""
        others = [f for f in fields(self)[1:] if getattr(self, f.name) != f.default]
        words = [f"{f.name} {getattr(self, f.name)}" for f in others]
        return ", ".join([f"rate {self.rate:g}", *words]).replace(".0,", ",").removesuffix(".0")

    def times(self, factor: float) -> Trial:
        """At another local rate, without the rounding of repeated products: 0.025, not 0.025000000000000001."""
        return replace(self, rate=float(f"{self.rate * factor:.6g}"))

    def chain(self, own: Sequence[Any], rounds: int) -> list[Any]:
        """The server's chain of a rule with its own chain, for a run of so many rounds."""
        warm = round(self.warmup * rounds)
        momentum = [f"momentum:{self.momentum}"] if self.momentum else []
        return [*momentum, *own, *([f"warmup:{warm}"] if warm else [])]

    def change(self, table: dict[str, Any]) -> dict[str, Any]:
        """A configuration with these values."""
        algorithm, local = dict(table["algorithm"]), dict(table["local"])
        algorithm["lr"] *= self.server_rate
        algorithm["chain"] = self.chain(algorithm.get("chain", []), table["rounds"])
        return {**table, "algorithm": algorithm, "local": {**local, "lr": self.rate, "schedule": self.schedule}}


@dataclass(frozen=True)
class Search:
    """The values of each coordinate, and how many trials a rule has."""

    rate: tuple[float, ...]
    momentum: tuple[float, ...]
    server_rate: tuple[float, ...]
    warmup: tuple[float, ...]
    schedule: tuple[str, ...]
    trials: int

    def walk(self, scores: Mapping[Trial, float]) -> tuple[set[Trial], list[Trial]]:
        """The trials of the search that were run, by the scores of all that were, and those to run next.

        There are none to run when the search has ended.
        """
        start = Trial(self.rate[len(self.rate) // 2])
        seen = {replace(start, rate=rate) for rate in self.rate}
        while (edge := self._beyond(seen, scores)) and len(seen) < len(self.rate) + _FURTHER:
            if not seen <= scores.keys():
                break
            seen.add(edge)
        for name in ("momentum", "server_rate", "warmup", "schedule"):
            if not seen <= scores.keys():
                break
            base = best(seen, scores)
            seen |= {replace(base, **{name: value}) for value in getattr(self, name)}
        while seen <= scores.keys() and len(seen) < self.trials:
            base = best(seen, scores)
            beside = next((t for t in (base.times(1 / _STEP), base.times(_STEP)) if t not in seen), None)
            if beside is None:
                break
            seen.add(beside)
        missing = sorted(seen - scores.keys(), key=lambda trial: (trial.rate, trial.name))
        return seen - set(missing), missing

    def _beyond(self, tried: Iterable[Trial], scores: Mapping[Trial, float]) -> Trial | None:
        """The next rate, where the best one is the smallest or the largest."""
        low, *_, high = sorted(tried, key=lambda trial: trial.rate)
        return {low: low.times(1 / _STEP), high: high.times(_STEP)}.get(best(tried, scores))


def best(trials: Iterable[Trial], scores: Mapping[Trial, float]) -> Trial:
    """The trial with the highest score; of equal ones the smallest rate, which is also the choice if all failed."""
    order = sorted(trials, key=lambda t: (t.rate, t.name))
    return max(order, key=lambda trial: scores.get(trial, -math.inf))
