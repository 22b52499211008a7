"""Labels keep their order and a distance, and are moved as little as possible."""

import numpy as np
import pytest

from fedswe.plotting.end_labels import spread_out


@pytest.mark.parametrize(
    ("wanted", "placed"),
    [
        ([], []),
        ([50], [50]),
        ([10, 90], [10, 90]),  # far apart: not moved
        ([50, 50, 50], [40, 50, 60]),  # around their mean
        ([52, 48], [55, 45]),  # in any order
        ([0, 0], [0, 10]),  # not below the axes
        ([100, 99], [100, 90]),  # not above
        ([-500, 900], [0, 100]),  # ends outside of the axes
        ([10, 10, 80], [5, 15, 80]),
    ],
)
def test_labels_are_moved_as_little_as_possible(wanted, placed):
    np.testing.assert_allclose(spread_out(wanted, 10, 100), placed)


def test_a_label_of_two_lines_takes_the_place_of_two():
    np.testing.assert_allclose(spread_out([50, 50, 50], [10, 20, 10], 100), [35, 50, 65])
    np.testing.assert_allclose(spread_out([52, 48], [20, 10], 100), [57.5, 42.5])


def test_too_many_labels_extend_on_both_sides():
    np.testing.assert_allclose(spread_out([3.0, 2.0, 1.0, 0.0], 10, 20), [25, 15, 5, -5])
