"""Where clients may leave for good, those that left do not count for ever."""

import numpy as np
import pytest

from fedswe.availability.mask import Rows
from fedswe.core.local import Local
from fedswe.tasks import Quadratic
from tests import problems
from tests.algorithms import ALGORITHMS

PARAMETERS = {"fedswe": {"k": 1.0}, "fedswe_variant": {"k": 1.0}, "gfedavg": {"amplification": 2.0, "period": 6}}


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
