"""Intervals against scipy's test and the printed tables of Student's t."""

import math

import pytest
from scipy.stats import ttest_1samp

from fedswe.confidence import CONFIDENCE, Interval, quantile


@pytest.mark.parametrize(("freedom", "printed"), [(1, 12.706), (2, 4.303), (4, 2.776), (9, 2.262)])
def test_quantiles_of_the_printed_table(freedom, printed):
    assert quantile(freedom) == pytest.approx(printed, abs=5e-4)


def test_an_interval_is_that_of_the_t_test():
    values = [0.8, 0.7, 0.95, 0.6]
    found, test = Interval.of(values), ttest_1samp(values, 0.0).confidence_interval(CONFIDENCE)
    assert (found.mean - found.half, found.mean + found.half) == pytest.approx((test.low, test.high))


def test_one_seed_has_no_interval():
    assert math.isnan(quantile(0))
    assert math.isnan(Interval.of([1.0]).half)
    assert Interval.of([1.0, 1.0]) == Interval(1.0, 0.0)
