"""Transforms of a direction: clip, momentum, warm-up, Adam, Yogi, Adagrad, weight decay, a proximal term.

A direction v is what a model descends along: x becomes x - lr v. A chain is a list of transforms, applied in order. One
definition serves two places:

* at a client, v is the stochastic gradient of each local step, and the state is reset in every round;
* at the server, v is minus the step of the round (the averaged progress), and the state is part of the server's state.

All arithmetic is along the last axis, so that one definition serves one client, a stack of n clients, and the server.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fedswe.core.records import Nothing, Scalar, Vector
from fedswe.core.value import Count, Decay, NonNegative, Positive, Value
from fedswe.errors import FedsweError


@dataclass(frozen=True)
class Transform(Value, ABC):
    """Hyper-parameters only; the state is a frozen record of tensors, passed in and returned."""

    title: ClassVar[str]
    at_server: ClassVar[bool] = True  # whether it means anything in the server's chain

    def init(self, x: Vector) -> Any:
        """The state before the first direction, for models of the shape of x."""
        return Nothing()

    @abstractmethod
    def __call__(self, v: Vector, state: Any, x: Vector, start: Vector) -> tuple[Vector, Any]:
        """The new direction and state, at the model x; `start` is where this round's local training began."""


def begin(chain: Iterable[Transform], x: Vector) -> tuple[Any, ...]:
    """The states of a chain before its first direction."""
    return tuple(transform.init(x) for transform in chain)


def apply(
    chain: Sequence[Transform], v: Vector, states: Sequence[Any], x: Vector, start: Vector
) -> tuple[Vector, tuple[Any, ...]]:
    """The direction after the whole chain, and the new states."""
    after = []
    for transform, state in zip(chain, states, strict=True):
        shape = v.shape
        v, new = transform(v, state, x, start)
        if v.shape != shape:  # it would be broadcast, and mix the clients of a stack
            name = type(transform).__name__
            raise FedsweError(f"{name} returned a direction of shape {list(v.shape)} for one of {list(shape)}")
        after.append(new)
    return v, tuple(after)


@dataclass(frozen=True)
class Clip(Transform):
    """Shorten the direction to an L2 norm of at most `norm`: v min(1, norm / ||v||)."""

    norm: Positive = 1.0  # largest L2 norm of a direction

    title: ClassVar[str] = "bound the L2 norm of the direction"

    def __call__(self, v: Vector, state: Nothing, x: Vector, start: Vector) -> tuple[Vector, Nothing]:
        factor: Scalar = self.norm / v.norm(dim=-1, keepdim=True).clamp(min=self.norm)
        return v * factor, state


@dataclass(frozen=True)
class WeightDecay(Transform):
    """Add `rate` times the model: v + rate x."""

    rate: NonNegative = 1e-4  # weight of the model in the direction

    title: ClassVar[str] = "weight decay: v + rate x"

    def __call__(self, v: Vector, state: Nothing, x: Vector, start: Vector) -> tuple[Vector, Nothing]:
        return v + self.rate * x, state


@dataclass(frozen=True)
class Prox(Transform):
    """FedProx's proximal term: v + mu (x - start) pulls local training back to where the round began.

    Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith. Federated Optimization in Heterogeneous Networks. MLSys 2020.
    """

    mu: NonNegative = 0.01  # weight of the distance to the start of the round

    title: ClassVar[str] = "FedProx's proximal term: v + mu (x - start)"
    at_server: ClassVar[bool] = False  # there x is where the round began

    def __call__(self, v: Vector, state: Nothing, x: Vector, start: Vector) -> tuple[Vector, Nothing]:
        return v + self.mu * (x - start), state


@dataclass(frozen=True)
class Velocity:
    m: Vector  # the sum of past directions, each discounted by beta per step


@dataclass(frozen=True)
class Momentum(Transform):
    """Heavy-ball momentum: m = beta m + v, and m is the direction. At the server this is FedAvgM.

    Hsu, Qi, Brown. Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification. 2019.
    Nesterov's form, v + beta m, is the outer optimiser of DiLoCo (Douillard and others, 2023).
    """

    beta: Decay = 0.9  # how much of the last direction is kept
    nesterov: bool = False  # Nesterov's form

    title: ClassVar[str] = "heavy-ball momentum; at the server FedAvgM"

    def init(self, x: Vector) -> Velocity:
        return Velocity(x.new_zeros(x.shape))

    def __call__(self, v: Vector, state: Velocity, x: Vector, start: Vector) -> tuple[Vector, Velocity]:
        m = self.beta * state.m + v
        return v + self.beta * m if self.nesterov else m, Velocity(m)


@dataclass(frozen=True)
class Past:
    count: Scalar  # directions seen


@dataclass(frozen=True)
class Warmup(Transform):
    """Short directions at the beginning: min(1, n / steps) v for the n-th. Last in a chain it is a warm-up of the rate.

    At the server a step is a round with reports, at a client a local step of the round.
    """

    steps: Count = 50  # directions until they have their whole length

    title: ClassVar[str] = "short directions at the beginning; last in the server's chain a warm-up of the global rate"

    def init(self, x: Vector) -> Past:
        return Past(x.new_zeros((*x.shape[:-1], 1)))

    def __call__(self, v: Vector, state: Past, x: Vector, start: Vector) -> tuple[Vector, Past]:
        n = state.count + 1
        return v * (n / self.steps).clamp(max=1.0), Past(n)


@dataclass(frozen=True)
class Squares:
    total: Vector  # the sum of squared directions


@dataclass(frozen=True)
class Adagrad(Transform):
    """s = s + v^2, direction v / (sqrt(s) + eps). At the server this is FedAdagrad (without momentum)."""

    eps: Positive = 1e-3  # FedOpt's tau
    initial: NonNegative = 1e-6  # s before the first direction; FedOpt has tau^2

    title: ClassVar[str] = "Adagrad; at the server FedAdagrad"

    def init(self, x: Vector) -> Squares:
        return Squares(x.new_zeros(x.shape) + self.initial)

    def __call__(self, v: Vector, state: Squares, x: Vector, start: Vector) -> tuple[Vector, Squares]:
        total = state.total + v * v
        return v / (total.sqrt() + self.eps), Squares(total)


@dataclass(frozen=True)
class Moments:
    m: Vector  # running mean of directions
    s: Vector  # running mean of their squares
    count: Scalar  # directions seen


@dataclass(frozen=True)
class Adam(Transform):
    """m = beta1 m + (1 - beta1) v, s = beta2 s + (1 - beta2) v^2, direction m' / (sqrt(s') + eps).

    m' and s' are corrected for their start at zero (Kingma and Ba, ICLR 2015). FedAdam is this transform at the server
    with correct_bias = false and eps = 1e-3 (Reddi and others, Adaptive Federated Optimization, ICLR 2021).
    """

    beta1: Decay = 0.9  # decay of the mean of directions
    beta2: Decay = 0.999  # decay of the mean of their squares; FedAdam has 0.99
    eps: Positive = 1e-8  # added to the root; FedAdam has 1e-3
    correct_bias: bool = True  # divide both means by 1 - beta^count; FedAdam does not

    title: ClassVar[str] = "Adam; at the server FedAdam"

    def init(self, x: Vector) -> Moments:
        zero = x.new_zeros(x.shape)
        return Moments(m=zero, s=zero, count=x.new_zeros((*x.shape[:-1], 1)))

    def __call__(self, v: Vector, state: Moments, x: Vector, start: Vector) -> tuple[Vector, Moments]:
        m = self.beta1 * state.m + (1 - self.beta1) * v
        s = self.beta2 * state.s + (1 - self.beta2) * (v * v)
        count = state.count + 1
        mean, square = m, s
        if self.correct_bias:
            mean, square = m / (1 - self.beta1**count), s / (1 - self.beta2**count)
        return mean / (square.sqrt() + self.eps), Moments(m, s, count)


@dataclass(frozen=True)
class SignedMoments:
    m: Vector  # running mean of directions
    s: Vector  # additive estimate of their squares


@dataclass(frozen=True)
class Yogi(Transform):
    """Adam whose s moves by at most v^2: s = s - (1 - beta2) v^2 sign(s - v^2). At the server this is FedYogi.

    Zaheer, Reddi, Sachan, Kale, Kumar. Adaptive Methods for Nonconvex Optimization. NeurIPS 2018.
    """

    beta1: Decay = 0.9  # decay of the mean of directions
    beta2: Decay = 0.99  # how slowly s follows the squares
    eps: Positive = 1e-3  # FedOpt's tau
    initial: NonNegative = 1e-6  # s before the first direction; FedOpt has tau^2

    title: ClassVar[str] = "Yogi; at the server FedYogi"

    def init(self, x: Vector) -> SignedMoments:
        zero = x.new_zeros(x.shape)
        return SignedMoments(m=zero, s=zero + self.initial)

    def __call__(self, v: Vector, state: SignedMoments, x: Vector, start: Vector) -> tuple[Vector, SignedMoments]:
        m = self.beta1 * state.m + (1 - self.beta1) * v
        square = v * v
        s = state.s - (1 - self.beta2) * square * (state.s - square).sign()
        return m / (s.sqrt() + self.eps), SignedMoments(m, s)
