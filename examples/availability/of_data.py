"""Probabilities that follow from the data of a client, or from a lognormal draw: models of FLGo, MIFA and F3AST.

fedswe run availability.name=./examples/availability/of_data.py:LowestLabel availability.floor=0.1
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedswe.availability.model import Availability, Population
from fedswe.availability.schedule import Bernoulli, Floats, Schedule
from fedswe.core import keys
from fedswe.errors import FedsweError, require

_HOURS = 24  # rounds of a day in these models
_DAY = 0.4 * np.sin(np.linspace(0, 2 * np.pi, _HOURS)) + 0.5


def labels_of(who: Population) -> Floats:
    """The label shares of the data that each client got."""
    if who.realised is None:
        raise FedsweError("this availability needs a task with class labels: choose another, such as stationary")
    return who.realised


@dataclass(frozen=True)
class LowestLabel(Availability):
    """p_i = floor + (1 - floor) min(Y_i) / (C - 1), Y_i the labels of client i among 0, ..., C - 1.

    MIFA's experiments have floor = 0.1; FLGo's YMF-beta has floor = 1 - beta.
    """

    floor: float = 0.1  # p_i of a client that holds label 0

    title: ClassVar[str] = "p_i grows with the lowest label of a client (MIFA, FLGo's YMF)"

    def __post_init__(self) -> None:
        require(0 <= self.floor <= 1, f"floor must be within [0, 1], not {self.floor:g}")

    def cycle(self) -> int:
        return 1

    def schedule(self, who: Population, seed: int) -> Schedule:
        held = labels_of(who) > 0
        p = self.floor + (1 - self.floor) * held.argmax(axis=1) / max(1, held.shape[1] - 1)
        return Bernoulli(who.m, seed, lambda t: p)


@dataclass(frozen=True)
class LabelCount(Availability):
    """p_i = weight |Y_i| / C + 1 - weight: more labels, more available.

    FLGo's YFF-beta (weight = beta). Its name and its documentation say the opposite, fewer labels first.
    """

    weight: float = 0.2  # how much the number of labels matters

    title: ClassVar[str] = "p_i grows with the number of labels of a client (FLGo's YFF)"

    def __post_init__(self) -> None:
        require(0 <= self.weight <= 1, f"weight must be within [0, 1], not {self.weight:g}")

    def cycle(self) -> int:
        return 1

    def schedule(self, who: Population, seed: int) -> Schedule:
        p = self.weight * (labels_of(who) > 0).mean(axis=1) + 1 - self.weight
        return Bernoulli(who.m, seed, lambda t: p)


@dataclass(frozen=True)
class LabelTurns(Availability):
    """p_i^t = weight 1{min(Y_i) <= r (C - 1) <= max(Y_i)} + 1 - weight with r = (1 + t mod 24) / 24.

    FLGo's YC-beta (weight = beta): labels take turns over a day of 24 rounds.
    """

    weight: float = 0.5  # how much less available a client is outside of its turn

    title: ClassVar[str] = "a client is more available while its labels have their turn (FLGo's YC)"

    def __post_init__(self) -> None:
        require(0 <= self.weight <= 1, f"weight must be within [0, 1], not {self.weight:g}")

    def cycle(self) -> int:
        return _HOURS

    def schedule(self, who: Population, seed: int) -> Schedule:
        held = labels_of(who) > 0
        top = max(1, held.shape[1] - 1)
        low, high = held.argmax(axis=1) / top, (held.shape[1] - 1 - held[:, ::-1].argmax(axis=1)) / top

        def prob(t: int) -> Floats:
            r = (1 + t % _HOURS) / _HOURS
            return np.asarray(self.weight * ((low <= r) & (r <= high)) + 1 - self.weight)

        return Bernoulli(who.m, seed, prob)


@dataclass(frozen=True)
class DataSize(Availability):
    """p_i = |D_i|^exponent / max_j |D_j|^exponent, |D_i| the number of samples of client i.

    With `day` also times 0.4 sin(2 pi (t mod 24) / 23) + 0.5. FLGo's MDF-beta has exponent = beta (1e-4 by default) and
    LDF-beta has exponent = -beta (0.5); its documentation says tanh(-|D_i| ln beta) and (1 - beta)^(-|D_i|). F3AST
    without given q has exponent = -1 and day = true.
    """

    exponent: float = -0.5  # above 0: clients with more data are more available; below 0: those with less
    day: bool = False  # whether the probabilities follow a day of 24 rounds

    title: ClassVar[str] = "p_i is a power of the number of samples of a client (FLGo's MDF and LDF)"

    def __post_init__(self) -> None:
        require(abs(self.exponent) <= 100, f"exponent must be within [-100, 100], not {self.exponent:g}")

    def cycle(self) -> int:
        return _HOURS if self.day else 1

    def schedule(self, who: Population, seed: int) -> Schedule:
        if who.sizes is None:
            raise FedsweError("data_size needs a task that says how many samples each client has: choose another")
        require(who.sizes.min() > 0, f"data_size: client {who.sizes.argmin()} has no samples")
        logs = self.exponent * np.log(who.sizes)
        return _relative(np.exp(logs - logs.max()), self.day, seed)


@dataclass(frozen=True)
class LogNormal(Availability):
    """p_i = q_i / max_j q_j with q_i ~ LogNormal(0, sigma).

    With `day` also times 0.4 sin(2 pi (t mod 24) / 23) + 0.5. F3AST's experiments have sigma = 0.25 and day = true;
    FLGo's LN-beta has sigma = -ln(1 - beta), SLN-beta the same and day = true.
    """

    sigma: float = 0.25  # standard deviation of ln q_i
    day: bool = True  # whether the probabilities follow a day of 24 rounds

    title: ClassVar[str] = "p_i is lognormal, relative to the largest (F3AST, FLGo's LN and SLN)"

    def __post_init__(self) -> None:
        require(0 <= self.sigma < math.inf, f"sigma must be 0 or more, not {self.sigma:g}")

    def cycle(self) -> int:
        return _HOURS if self.day else 1

    def schedule(self, who: Population, seed: int) -> Schedule:
        logs = self.sigma * keys.generator(seed, "lognormal availabilities").standard_normal(who.m)
        return _relative(np.exp(logs - logs.max()), self.day, seed)


def _relative(p: Floats, day: bool, seed: int) -> Schedule:
    return Bernoulli(len(p), seed, lambda t: p * _DAY[t % _HOURS] if day else p)
