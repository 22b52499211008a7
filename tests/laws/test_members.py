"""Whether clients may join and leave a deployment is declared by the algorithm; this law checks the declaration."""

from dataclasses import replace

import pytest
import torch

from fedswe.core.aggregation import aggregate, begin
from fedswe.core.algorithm import ServerView, empty_report
from fedswe.core.records import add, parts
from tests.laws.cases import CASES, make

X0 = torch.tensor([0.5, -2.0, 3.0], dtype=torch.float64)
ROUNDS = 15  # longer than a window


@pytest.mark.parametrize("case", CASES)
def test_m_enters_the_new_model_at_most_if_members_may_change(case):
    """From one state and one sum of reports, merges with different m leave the same state besides the model.

    A window that ends makes the model its anchor: that is compared with the model, not with the other anchor.
    """
    algorithm = make(case)
    server, random = begin(algorithm, X0), torch.Generator().manual_seed(1)
    free = True
    for t in range(ROUNDS):
        report = empty_report(algorithm, X0)
        noise = {n: torch.randn(v.shape, generator=random, dtype=v.dtype) for n, v in parts(report).items()}
        total = add(report, replace(report, **noise))
        after = [aggregate(algorithm, server, total, 2, ServerView(t, m, 0.1))[0] for m in (3, 5)]
        states = [parts(each.state) for each in after]
        for name in states[0].keys() - {"x"}:
            a, b = ((state[name] - state["x"]) if name == "anchor" else state[name] for state in states)
            kept = name == "anchor" and torch.equal(states[0][name], states[1][name])
            free &= kept or torch.equal(a, b)
        server = after[0]
    assert free == algorithm.members_change
