"""The same tuning for every rule: which rates are tried, and which is chosen for a served model.

All rules begin with the rates of the scale. While the best rate of any served model is the smallest or the largest
that was tried, the next one (half, or twice) is tried too. Then rates beside the tried ones follow until the rule has
had as many trials as every rule has at least. Each rate is run with every seed. Choices are made by the accuracy on
held-out samples, averaged over the seeds; test samples play no part in them, but for one thing. A rate with which
nothing was learned (not 10 points more than the initial model has on test samples) counts as one that diverged: among
such rates the best is a matter of chance, and the search would stop there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from fedswe.gym.measured import Measured
from fedswe.gym.settings import Scale

_STEP = 2.0  # between neighbouring rates
_LEARNED = 0.1  # by so much a model must be better than the initial one

Trials = Mapping[float, Sequence[Measured]]  # by rate: the rows of all seeds and served models


def next_rates(trials: Trials, scale: Scale) -> list[float]:
    """The rates to try next; none when the rule is done."""
    missing = [rate for rate in scale.rates if rate not in trials]
    if missing:
        return missing
    low, high = min(trials), max(trials)
    edges = at_edge(trials)
    wanted = [rate for edge, rate in ((low, low / _STEP), (high, high * _STEP)) if edge in edges]
    if wanted and len(trials) < scale.most_trials:
        return [_rounded(rate) for rate in wanted][: scale.most_trials - len(trials)]
    if len(trials) < scale.least_trials:
        # Inside the grid already: the side whose edge is better, for all served models together.
        better = max((low, high), key=lambda rate: math.fsum(max(v, -1.0) for v in _held_out(trials, rate).values()))
        return [_rounded(low / _STEP if better == low else high * _STEP)]
    return []


def at_edge(trials: Trials) -> set[float]:
    """The smallest and the largest rate, if it is the best for some served model.

    Where every rate diverged, a smaller one is wanted.
    """
    edges = {min(trials), max(trials)}
    outputs = {row.output for rows in trials.values() for row in rows}
    best = {best_rate(trials, output) for output in outputs}
    return {min(trials) if rate is None else rate for rate in best} & edges


def best_rate(trials: Trials, output: str) -> float | None:
    """The rate with the best held-out accuracy, smaller ones first; None if every one diverged."""
    scores = {rate: _held_out(trials, rate)[output] for rate in sorted(trials)}
    best = max(scores, key=lambda rate: scores[rate])
    return best if scores[best] > -math.inf else None


def _held_out(trials: Trials, rate: float) -> dict[str, float]:
    """By served model: the mean over seeds; minus infinity if it diverged with any of them, or learned nothing.

    fsum, because the sums of Python 3.11 and 3.12 differ in the last digit, and would decide ties differently.
    """
    found: dict[str, list[float]] = {}
    for row in trials[rate]:
        lost = row.diverged or row.held_out < row.curve[0] + _LEARNED
        found.setdefault(row.output, []).append(-math.inf if lost else row.held_out)
    return {output: math.fsum(values) / len(values) for output, values in found.items()}


def _rounded(rate: float) -> float:
    """Without the rounding of repeated products: 0.025, not 0.025000000000000001."""
    return float(f"{rate:.6g}")
