"""The control has the numbers of clients of its base, and any clients."""

import numpy as np
import pytest

from fedswe import run
from fedswe.availability import Alternating, Markov, Mask, Sine, Stationary, UniformControl
from fedswe.availability.model import Population
from fedswe.experiment.configuration import dump, load, load_text

M, ROUNDS = 6, 400
P = [0.05, 0.1, 0.2, 0.4, 0.8, 1.0]


@pytest.mark.parametrize("base", [Stationary(p=P), Sine(p=P), Markov(p=P), Alternating(p=P, period=10)])
def test_same_numbers_and_any_clients(base):
    control, plain = (model.schedule(Population(M), 3) for model in (UniformControl(base), base))
    chosen = np.stack([control.sample(t) for t in range(ROUNDS)])
    wanted = np.stack([plain.sample(t) for t in range(ROUNDS)])
    np.testing.assert_array_equal(chosen.sum(axis=1), wanted.sum(axis=1))
    assert np.ptp(wanted.mean(axis=0)) > 0.3
    np.testing.assert_allclose(chosen.mean(axis=0), chosen.mean(), atol=4 * (0.25 / ROUNDS) ** 0.5)
    for t in (0, 7):
        np.testing.assert_allclose(control.prob(t), plain.prob(t).mean())
    np.testing.assert_array_equal(control.sample(11), chosen[11])  # whatever was asked before


def test_it_knows_what_its_base_knows():
    present = np.array([[1, 0, 0], [0, 0, 0], [1, 1, 1]])
    control = UniformControl(Mask.from_array(present))
    assert (control.rounds(), control.clients(), UniformControl(Sine(period=8)).cycle()) == (3, 3, 8)
    assert UniformControl(Sine()).dependence() == "clients"
    schedule = control.schedule(Population(3), 0)
    assert [int(schedule.sample(t).sum()) for t in range(3)] == [1, 0, 3]
    assert np.isnan(schedule.prob(0)).all()


def test_in_a_configuration():
    words = ["availability.name=uniform_control", "availability.base=sine:gamma=0.2", "rounds=3", "task.name=quadratic"]
    experiment = load(None, [*words, "algorithm.name=fedavg"])
    assert experiment.availability == UniformControl(Sine(gamma=0.2))
    assert load_text(dump(experiment), "again") == experiment
    experiment = load_text(dump(load(None, [*words, "availability.base=stationary:p=0.5"])), "a")
    assert len(run(experiment).history.rows) > 0
