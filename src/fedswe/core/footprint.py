"""What an algorithm keeps, sends and computes, counted from its own definition."""

from __future__ import annotations

from dataclasses import dataclass

from fedswe.core.aggregation import aggregate, begin
from fedswe.core.algorithm import Algorithm, ClientView, Done, ServerView
from fedswe.core.records import Vector, floats


@dataclass(frozen=True)
class Footprint:
    """Numbers (not bytes) held and sent per client and round, for a model of d parameters."""

    server: int  # persistent state at the server
    client: int  # persistent state at each client
    down: int  # downlink before the work
    up: int  # report
    reply: int  # reply after the merge


@dataclass(frozen=True)
class Operations:
    """Numbers computed in a round with one report, training and the sum of the reports aside."""

    server: int
    client: int


def footprint(algorithm: Algorithm, d: int) -> Footprint:
    """Run the definition once on vectors without numbers, and count."""
    try:
        return _counted(algorithm, Shape((d,), []), [])[0]  # type: ignore[arg-type]
    except (AttributeError, TypeError):  # it uses functions of torch that only a tensor has
        import torch

        return _counted(algorithm, torch.zeros(d), [])[0]


def operations(algorithm: Algorithm, d: int) -> Operations:
    """One for each number of every intermediate result; for algorithms that do arithmetic with vectors only."""
    computed: list[int] = []
    return _counted(algorithm, Shape((d,), computed), computed)[1]  # type: ignore[arg-type]


def _counted(algorithm: Algorithm, x0: Vector, computed: list[int]) -> tuple[Footprint, Operations]:
    """One round with one report; `computed` has the sizes of all results of arithmetic with x0."""
    one, at = x0.new_ones((1,)), ServerView(t=1, m=1, local_lr=1.0)
    here, server, client = ClientView(one, one), begin(algorithm, x0), algorithm.client_init(x0)
    before = sum(computed)
    down = algorithm.downlink(server.state, at)
    sent = sum(computed)
    job = algorithm.plan(client, down, here)
    client, report = algorithm.report(client, down, job, Done(job.start, steps=1, lr=1.0), here)
    reported = sum(computed)
    server, reply = aggregate(algorithm, server, report, 1, at)
    merged = sum(computed)
    client = algorithm.settle(client, reply, here)
    kept = sum(value.numel() for value in server.tensors().values())
    numbers = Footprint(kept, floats(client), floats(down), floats(report), floats(reply))
    return numbers, Operations(sent - before + merged - reported, reported - sent + sum(computed) - merged)


class Shape:
    """A tensor without numbers: enough to count, and no need to import torch for it."""

    def __init__(self, shape: tuple[int, ...], computed: list[int]) -> None:
        self.shape, self.ndim = shape, len(shape)
        self._computed = computed  # sizes of all results of arithmetic

    def numel(self) -> int:
        return self.shape[0] if self.shape else 1

    def new_zeros(self, shape: tuple[int, ...]) -> Shape:
        return Shape(tuple(shape), self._computed)

    new_ones = new_zeros

    def _wider(self, *others: object, **_: object) -> Shape:
        shapes = [self.shape, *(other.shape for other in others if isinstance(other, Shape))]
        result = Shape(max(shapes), self._computed)
        self._computed.append(result.numel())
        return result

    def norm(self, dim: int, keepdim: bool) -> Shape:
        self._computed.append(2 * self.numel())  # squares and their sum
        return Shape((1,), self._computed)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _wider
    __pow__ = __rpow__ = __neg__ = __invert__ = __lt__ = __le__ = __gt__ = __ge__ = _wider
    clamp = minimum = floor = round = exp = sqrt = sign = where = _wider


def in_d(count: int, d: int) -> str:
    """``2003`` at d = 1000 reads ``2d + 3``."""
    models, rest = divmod(count, d)
    terms = []
    if models:
        terms.append("d" if models == 1 else f"{models}d")
    if rest:
        terms.append(str(rest))
    return " + ".join(terms) or "0"
