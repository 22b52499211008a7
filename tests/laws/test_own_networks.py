"""Networks of users train alike in both engines."""

import numpy as np
import pytest

from fedswe import Experiment, run
from fedswe.algorithms import FedSWE, Scaffold
from fedswe.availability import Stationary
from fedswe.core.local import Local
from tests.problems import ENGINES
from tests.tasks.own_networks import KINDS, task

DRIFTING = ["dropout", "batch normalisation", "transformer"]


@pytest.mark.parametrize(
    ("name", "rule"), [*((name, FedSWE()) for name in KINDS), *((name, Scaffold()) for name in DRIFTING)], ids=str
)
def test_both_engines_give_the_same_numbers(name, rule):
    given = {"rounds": 5, "dtype": "float64", "availability": Stationary(p=0.6), "local": Local(3, 16, 0.05)}
    experiments = [Experiment(task=task(name), algorithm=rule, engine=engine, **given) for engine in ENGINES]
    one, other = (run(experiment).history for experiment in experiments)
    for column in set(one.columns) - {"seconds"}:
        np.testing.assert_allclose(one[column], other[column], rtol=1e-9)
    assert one.rows[0]["server_train_loss"] != one.last["server_train_loss"]
