"""Tables become text and JSON."""

import json
import math

import numpy as np
import pandas as pd

from fedswe.analysis.report import cells, frame
from fedswe.cli.console import print_json


def test_cells_have_four_digits_and_a_dash_where_there_is_no_value():
    rows = [
        {"k": np.int64(3), "rho": 0.00012345678, "interval": (0.5, 1234567.0), "how": "exact", "met": True},
        {"k": math.inf, "rho": math.nan, "interval": None, "how": "", "met": False},
    ]
    shown = [["3", "0.0001235", "0.5 … 1234567", "exact", "yes"], ["∞", "—", "—", "", "no"]]
    assert cells(frame(rows)) == (["k", "rho", "interval", "how", "met"], shown)
    assert cells(frame([{"k": 1}, {"k": 2, "rho": 1.5e12}]))[1] == [["1", "—"], ["2", "1.5e+12"]]


def test_json_has_no_numpy_and_nothing_infinite(capsys):
    table = pd.DataFrame({"k": [1, 2], "rho": [0.5, math.inf]})
    value = {1: np.array([1.0, np.nan]), "b": (np.float64(2), math.inf), "c": [None, "x", True], "d": table}
    rows = [{"k": 1, "rho": 0.5}, {"k": 2, "rho": None}]
    print_json(value)
    plain = {"1": [1.0, None], "b": [2.0, None], "c": [None, "x", True], "d": rows}
    assert json.loads(capsys.readouterr().out) == plain
