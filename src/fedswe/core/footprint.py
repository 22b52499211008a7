"""What an algorithm keeps, sends and computes, counted from its own definition."""

from __future__ import annotations

from dataclasses import dataclass

from fedswe.core.aggregation import aggregate, begin
from fedswe.core.algorithm import Algorithm, ClientView, Done, ServerView, empty_report
from fedswe.core.records import Vector, floats


@dataclass(frozen=True)
class Footprint:
    """Numbers (not bytes) held and sent per client and round, for a model of d parameters."""

    server: int  # persistent state at the server
    client: int  # persistent state at each client
    down: int  # downlink before the work
    up: int  # report
    reply: int  # reply after the merge


def footprint(algorithm: Algorithm, d: int) -> Footprint:
    """Run the definition once on vectors without numbers, and count."""
    try:
        return _counted(algorithm, Shape((d,)))  # type: ignore[arg-type]
    except (AttributeError, TypeError):  # it uses functions of torch that only a tensor has
        import torch

        return _counted(algorithm, torch.zeros(d))


def _counted(algorithm: Algorithm, x0: Vector) -> Footprint:
    server, at = begin(algorithm, x0), ServerView(t=1, m=1, local_lr=1.0)
    one = x0.new_ones((1,))
    report = empty_report(algorithm, x0)
    down = algorithm.downlink(server.state, at)
    after, reply = aggregate(algorithm, server, report, 1, at)
    client = algorithm.settle(algorithm.client_init(x0), reply, ClientView(one, one))
    return Footprint(
        server=sum(value.numel() for value in after.tensors().values()),
        client=floats(client),
        down=floats(down),
        up=floats(report),
        reply=floats(reply),
    )


@dataclass(frozen=True)
class Operations:
    """Numbers computed in a round with one report, training and the sum of the reports aside."""

    server: int
    client: int


def operations(algorithm: Algorithm, d: int) -> Operations:
    """One for each number of every intermediate result; for algorithms that do arithmetic with vectors only."""
    computed: list[int] = []

    def spent() -> int:
        total = sum(computed)
        computed.clear()
        return total

    x0: Vector = Shape((d,), computed)  # type: ignore[assignment]
    one, at = x0.new_ones((1,)), ServerView(t=1, m=1, local_lr=1.0)
    here, server, client = ClientView(one, one), begin(algorithm, x0), algorithm.client_init(x0)
    spent()  # at the start of a run
    down = algorithm.downlink(server.state, at)
    at_server = spent()
    job = algorithm.plan(client, down, here)
    client, report = algorithm.report(client, down, job, Done(job.start, steps=1, lr=1.0), here)
    at_client = spent()
    _, reply = aggregate(algorithm, server, report, 1, at)
    at_server += spent()
    algorithm.settle(client, reply, here)
    return Operations(at_server, at_client + spent())


class Shape:
    """A tensor without numbers: enough to count, and no need to import torch for it."""

    def __init__(self, shape: tuple[int, ...], computed: list[int] | None = None) -> None:
        self.shape, self.ndim = shape, len(shape)
        self._computed = [] if computed is None else computed  # sizes of all results of arithmetic

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
