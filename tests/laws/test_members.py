"""Whether clients may join and leave for good is declared by the algorithm; this law checks the declaration."""

import numpy as np
import pytest
import torch

from fedswe.availability.mask import Rows
from fedswe.core.aggregation import aggregate, begin
from fedswe.core.algorithm import ServerView
from fedswe.core.local import Local
from fedswe.core.records import parts
from fedswe.tasks import Quadratic
from tests import problems
from tests.algorithms import ALGORITHMS
from tests.laws.cases import CASES, X0, any_report, make

ROUNDS = 15  # longer than a window


# Where m is not in the server's state, and members may not leave all the same: what clients keep adds up to 0,
# or to m times the model.
BALANCED = ("mimic", "area")
PARAMETERS = {"fedswe": {"k": 1.0}, "fedswe_variant": {"k": 1.0}, "gfedavg": {"amplification": 2.0, "period": 6}}


@pytest.mark.parametrize("case", CASES)
def test_m_enters_the_new_model_at_most_if_members_may_change(case):
    """From one state and one sum of reports, merges with different m leave the same state besides the model.

    A window that ends makes the model its anchor: that is compared with the model, not with the other anchor.
    """
    algorithm = make(case)
    server, random = begin(algorithm, X0), torch.Generator().manual_seed(1)
    free = True
    for t in range(ROUNDS):
        total = any_report(algorithm, random)
        after = [aggregate(algorithm, server, total, 2, ServerView(t, m, 0.1))[0] for m in (3, 5)]
        states = [parts(each.state) for each in after]
        for name in states[0].keys() - {"x"}:
            a, b = ((state[name] - state["x"]) if name == "anchor" else state[name] for state in states)
            kept = name == "anchor" and torch.equal(states[0][name], states[1][name])
            free &= kept or torch.equal(a, b)
        server = after[0]
    assert free == algorithm.members_change or (free and case in BALANCED)


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if ALGORITHMS[name].members_change])
def test_a_client_that_left_does_not_pull_for_ever(name):
    """A run in which a client leaves ends where one ends in which it never was."""
    rounds = 300
    present = np.tile([[True, True, True]], (rounds, 1))
    present[::2, 1] = False
    ends = []
    for leaves in (0, 30):
        present[:, 2] = np.arange(rounds) < leaves
        task = Quadratic(centers=[[0.0], [3.0], [9.0]], curvature=1.0, start=1.0)
        schedule = Rows(present.copy(), np.ones((1, 3)))
        rule, problem = ALGORITHMS[name](**PARAMETERS.get(name, {})), task.build(problems.setting())
        local = Local(steps=1, lr=0.1, schedule="constant")
        ends.append(problems.models("batched", rule, problem, schedule, rounds, local)[-20:, 0].mean())
    assert ends[0] == pytest.approx(ends[1], abs=0.05)
