"""Extrapolation brings the model nearer to what all clients want, if there is such a model.

Every client wants a set of models, and its progress leads to the nearest one of them (a projection). The sets have a
model in common. Then a step is never longer than the way, and never worse than without extrapolation.
"""

import pytest
import torch

from fedswe.algorithms.interval_extrapolation import WeightedSquare
from fedswe.core.aggregation import aggregate, begin
from fedswe.core.algorithm import ServerView
from fedswe.core.records import add
from tests.algorithms import ALGORITHMS

D, M = 8, 12


def reports(x, wanted, x_star, generator):
    """Of a random set of clients; client i wants the models with wanted_i (x - x*) = 0."""
    total, count = None, 0
    for normal in wanted:
        if torch.rand((), generator=generator) < 0.5:
            continue
        move = -torch.linalg.pinv(normal) @ (normal @ (x - x_star))
        weight = 1 + 20 * torch.rand(1, generator=generator, dtype=x.dtype)
        sent = WeightedSquare(weight * move, weight, weight * (move @ move))
        total, count = (add(total, sent) if total else sent), count + 1
    return total, count


@pytest.mark.parametrize("least", [0.0, 1.0, 5.0])
@pytest.mark.parametrize("seed", range(5))
def test_a_step_is_not_worse_than_without_extrapolation(seed, least):
    generator = torch.Generator().manual_seed(seed)
    wanted = [torch.randn(rows, D, generator=generator, dtype=torch.float64) for rows in ([1] * 8 + [2] * 4)]
    x_star = torch.randn(D, generator=generator, dtype=torch.float64)
    rule = ALGORITHMS["interval_extrapolation"](least=least, longest=100.0)
    plain = ALGORITHMS["interval_weights"](least=least)
    server, longer = begin(rule, torch.zeros(D, dtype=torch.float64)), 0
    for t in range(40):
        total, count = reports(server.state.x, wanted, x_star, generator)
        if not count:
            continue
        view = ServerView(t, M, 0.1)
        before = (server.state.x - x_star).norm()
        other = aggregate(plain, begin(plain, server.state.x), total, count, view)[0]
        server = aggregate(rule, server, total, count, view)[0]
        with_it, without = ((s.state.x - x_star).norm() for s in (server, other))
        assert with_it <= without + 1e-12
        assert without <= before + 1e-12
        longer += bool(with_it < without - 1e-9)
    assert longer > 20
