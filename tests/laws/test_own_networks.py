"""Networks of users train alike in both engines and in a deployment."""

from dataclasses import replace

import pytest

from fedswe import Experiment, run
from fedswe.algorithms import Scaffold
from fedswe.availability import Stationary
from fedswe.core.local import Local
from fedswe.deploy import Deployment, run_in_memory
from tests.tasks.own_networks import KINDS, task

NAMES = list(KINDS)


def experiment(name, **changes):
    base = Experiment(
        rounds=5, dtype="float64", task=task(name), availability=Stationary(p=0.6), local=Local(3, 16, 0.05)
    )
    return replace(base, **changes)


def scores(result):
    history = getattr(result, "history", result)
    return {key: value for key, value in history.last.items() if key != "seconds"}


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


@pytest.mark.parametrize("name", NAMES)
def test_a_deployment_gives_the_numbers_of_the_simulator(name, tmp_path):
    simulated = run(experiment(name))
    deployed = run_in_memory(Deployment(experiment(name), simulate_absence=True), tmp_path)
    assert scores(deployed) == pytest.approx(scores(simulated), rel=1e-9)
