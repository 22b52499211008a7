"""Where real machines keep the state of a client is declared by the algorithm; this law checks the declaration."""

import pytest
import torch

from fedswe.core.aggregation import aggregate, begin
from fedswe.core.algorithm import ClientView, Done, ServerView
from fedswe.core.records import parts
from tests.laws.cases import CASES, X0, any_report, make


def scalar(value):
    return X0.new_full((1,), float(value))


def after(algorithm, state, down, end, reply, t):
    """The client's state after a round that ended its training at `end`."""
    at = ClientView(scalar(t), scalar(0.5))
    job = algorithm.plan(state, down, at)
    return algorithm.settle(algorithm.report(state, down, job, Done(end, steps=1, lr=1.0), at)[0], reply, at)


@pytest.mark.parametrize("case", CASES)
def test_state_at_the_client_depends_on_the_last_reply_alone(case):
    """Clients of different pasts that are merged in the same round with the same reply hold the same state."""
    algorithm = make(case)
    server, random = begin(algorithm, X0), torch.Generator().manual_seed(1)
    states = [algorithm.client_init(X0) for _ in range(3)]
    forgets = True
    for t in range(12):
        view = ServerView(t, 3, 0.1)
        down = algorithm.downlink(server.state, view)
        server, reply = aggregate(algorithm, server, any_report(algorithm, random), 1, view)
        ends = [X0 + torch.randn(3, generator=random, dtype=X0.dtype) for _ in states]
        # The third client is absent in every other round, so that its past differs from that of the others.
        there = range(3) if t % 2 else range(2)
        for i in there:
            states[i] = after(algorithm, states[i], down, ends[i], reply, t)
        for i in there:
            forgets &= all(torch.equal(v, getattr(states[0], n)) for n, v in parts(states[i]).items())
    assert forgets == (algorithm.home == "client")
