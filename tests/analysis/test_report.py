"""Tables are made from the values, and values become JSON."""

import math

import numpy as np
import pytest

from fedswe.analysis.report import cells, general, or_else, plain, short


def test_a_table_has_the_columns_of_its_first_row():
    rows = [{"client": np.int64(3), "k": general(0.0), "noise": None}, {"k": general(math.inf), "noise": 12345.6}]
    assert cells(rows) == [["3", "0", "—"], ["", "∞", "12346"]]


@pytest.mark.parametrize(("value", "text"), [(None, "never"), (math.inf, "never"), (2.5, "2.5"), (7, "7")])
def test_a_word_stands_for_what_is_missing_or_infinite(value, text):
    assert cells([{"T": or_else(value, "never")}]) == [[text]]


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "—"), (math.nan, "—"), (0.00012345678, "0.0001235"), (1234567.0, "1234567"), (1.5e12, "1.5e+12")],
)
def test_four_digits(value, text):
    assert short(value) == text


def test_json_has_no_numpy_and_nothing_infinite():
    value = {1: np.array([1.0, np.nan]), "b": (np.float64(2), math.inf), "c": [None, "x", True]}
    assert plain(value) == {"1": [1.0, None], "b": [2.0, None], "c": [None, "x", True]}
