"""Networks of users train alike in both engines."""

from dataclasses import replace

import pytest

from fedswe import Experiment, run
from fedswe.algorithms import Scaffold
from fedswe.availability import Stationary
from fedswe.core.local import Local
from tests.tasks.own_networks import KINDS, task

NAMES = list(KINDS)


def experiment(name, **changes):
    base = Experiment(
        rounds=5, dtype="float64", task=task(name), availability=Stationary(p=0.6), local=Local(3, 16, 0.05)
    )
    return replace(base, **changes)


def scores(result):
    return {key: value for key, value in result.history.last.items() if key != "seconds"}


@pytest.mark.parametrize("name", NAMES)
def test_both_engines_give_the_same_numbers(name):
    loop, batched = (run(experiment(name, engine=engine)) for engine in ("loop", "batched"))
    assert scores(batched) == pytest.approx(scores(loop), rel=1e-9)
    assert batched.history.rows[0]["server_train_loss"] != batched.history.last["server_train_loss"]


@pytest.mark.parametrize("name", ["dropout", "batch normalisation", "transformer"])
def test_a_drift_is_added_in_both_engines(name):
    loop, batched = (
        run(experiment(name, engine=engine, algorithm=Scaffold(), rounds=3)) for engine in ("loop", "batched")
    )
    assert scores(batched) == pytest.approx(scores(loop), rel=1e-9)
