"""Tables are made from the values, and values become JSON."""

import math

import numpy as np
import pytest

from fedswe.analysis.report import general, or_else, plain, short, table


def test_a_table_is_its_rows_by_key_and_format():
    rows = [
        {"k": 0.0, "rho": 1.0, "bound": None, "client": np.int64(3)},
        {"k": math.inf, "rho": 0.123456, "bound": {"noise": 12345.6}},
    ]
    columns = ["client", ("k", "k", general), ("rho_k", "rho"), ("noise", "bound.noise"), ("T", "bound", _length)]
    found = table("a title", rows, columns)
    assert (found.title, found.columns) == ("a title", ["client", "k", "rho_k", "noise", "T"])
    assert found.rows == [["3", "0", "1", "—", "none"], ["", "∞", "0.1235", "12346", "1"]]


def _length(bound):
    return "none" if bound is None else str(len(bound))


@pytest.mark.parametrize(("value", "text"), [(None, "never"), (math.inf, "never"), (2.5, "2.5"), (7, "7")])
def test_a_word_stands_for_what_is_missing_or_infinite(value, text):
    assert or_else("never")(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "—"), (math.nan, "—"), (0.00012345678, "0.0001235"), (1234567.0, "1234567"), (1.5e12, "1.5e+12")],
)
def test_four_digits(value, text):
    assert short(value) == text


def test_json_has_no_numpy_and_nothing_infinite():
    value = {1: np.array([1.0, np.nan]), "b": (np.float64(2), math.inf), "c": [None, "x", True]}
    assert plain(value) == {"1": [1.0, None], "b": [2.0, None], "c": [None, "x", True]}
