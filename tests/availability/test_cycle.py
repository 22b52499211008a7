"""The cycle of a model is the shortest after which its probabilities repeat."""

import numpy as np
import pytest

from fedswe.availability import (
    Alternating,
    Always,
    Cyclic,
    InterleavedSine,
    Markov,
    Mask,
    Sine,
    Staircase,
    Stationary,
)
from fedswe.availability.model import Population


@pytest.mark.parametrize(
    ("model", "cycle"),
    [
        (Always(), 1),
        (Stationary(p=0.4), 1),
        (Markov(p=0.4), 1),
        (Staircase(p=0.4, period=6), 6),
        (Sine(p=0.4, period=7), 7),
        (InterleavedSine(p=0.4, period=7, cutoff=0.2), 7),
        (Alternating(p=0.4, period=8), 8),
        (Cyclic(p=0.4, groups=3), 3),
    ],
)
def test_probabilities_repeat_after_the_cycle_and_not_before(model, cycle):
    assert model.cycle() == cycle
    schedule = model.schedule(Population(6), 3)
    prob = np.stack([schedule.prob(t) for t in range(3 * cycle)])
    np.testing.assert_allclose(prob[cycle:], prob[:-cycle], atol=1e-12)
    for shorter in range(1, cycle):
        assert np.abs(prob[shorter:] - prob[:-shorter]).max() > 1e-3


def test_a_file_has_no_cycle():
    assert Mask(file="rounds.csv").cycle() is None
