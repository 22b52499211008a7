"""fedswe theory assumption: the numbers are those of fedswe.theory."""

import numpy as np
import pytest

from fedswe.theory.assumption import delta_profile, smallest_period


def test_assumption(values):
    words = ["alternating", "availability.p=[0.4,0.2,0.5,1.0]", "availability.period=10"]
    said = values("assumption", *words, "--horizon", 60, "--delta", "0.1,0.02,0.4")
    prob = np.tile(np.repeat([[0.4, 0.2, 0, 0], [0, 0, 0.5, 1.0]], 5, axis=0), (6, 1))
    assert (said["period"], said["delta"], said["delta_max"]) == (10, pytest.approx(0.1), 1)
    np.testing.assert_allclose(said["profile"], delta_profile(prob), atol=1e-12)
    periods = [entry["period"] for entry in said["smallest_periods"]]
    assert periods == [smallest_period(delta_profile(prob), 0.1), smallest_period(delta_profile(prob), 0.02), None]


def test_assumption_of_a_trace_covers_the_truth(values, mask):
    said = values("assumption", *mask[0], "--period", 100, "--delta", "0.05")
    assert said["interval"][0] <= 0.2 <= said["interval"][1]
    assert said["smallest_periods"][0]["certified"] > 1
    narrow = values("assumption", *mask[0], "--period", 100, "--confidence", 0.5)
    assert narrow["interval"][0] > said["interval"][0]
