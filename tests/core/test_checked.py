"""Types of fields, as users write them in their own classes."""

from __future__ import annotations

import typing
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pytest

from fedswe.core.checked import check_types
from fedswe.errors import FedsweError
from fedswe.experiment.configuration import dump, load, load_text


@dataclass(frozen=True)
class Typed:
    level: Literal[1, 2] = 1
    mode: Literal["fast", "exact", None] = "fast"
    switch: Literal[True, "auto"] = True
    pair: tuple[int, str] = (1, "a")
    pairs: list[tuple[int, float]] = field(default_factory=list)
    several: tuple[int, ...] = ()
    untyped: typing.List = field(default_factory=list)  # noqa: UP006


@pytest.mark.parametrize(
    "values",
    [
        {"level": 2},
        {"level": np.int64(2)},
        {"mode": "exact"},
        {"mode": None},
        {"switch": "auto"},
        {"pair": (2, "b")},
        {"pair": [2, "b"]},
        {"pairs": [(1, 0.5), [2, 1]]},
        {"several": (1, 2, 3)},
        {"untyped": [1, "a"]},
    ],
)
def test_values_that_fit(values):
    part = Typed(**values)
    check_types(part)
    assert [getattr(part, key) for key in values] == list(values.values())  # nothing is converted


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"level": 3}, "level must be one of 1, 2, not 3"),
        ({"level": "1"}, "level must be one of 1, 2, not '1'"),
        ({"level": True}, "level must be one of 1, 2, not True"),
        ({"mode": "slow"}, "mode must be one of fast, exact, None, not 'slow'"),
        ({"switch": 1}, "switch must be one of True, auto, not 1"),
        ({"pair": (1, 2)}, "pair must be text, not 2"),
        ({"pair": ("a", 1)}, "pair must be a whole number, not 'a'"),
        ({"pair": (1,)}, "pair must be a list of 2: a whole number, text, not (1,)"),
        ({"pair": 1}, "pair must be a list of 2: a whole number, text, not 1"),
        ({"pairs": [(1, 0.5, 2)]}, "pairs must be a list of 2: a whole number, a number, not (1, 0.5, 2)"),
        ({"several": (1, "a")}, "several must be a whole number, not 'a'"),
        ({"several": 1}, "several must be a list, each a whole number, not 1"),
        ({"untyped": 1}, "untyped must be an instance of list, not 1"),
    ],
)
def test_values_that_do_not_fit(values, message):
    with pytest.raises(FedsweError) as caught:
        check_types(Typed(**values))
    assert str(caught.value) == message


OWN = """
from dataclasses import dataclass
from typing import Literal
from fedswe.algorithms import FedAvg

@dataclass(frozen=True)
class Own(FedAvg):
    level: Literal[1, 2] = 1
    pair: tuple[int, str] = (1, "a")
"""


def test_such_fields_in_a_configuration(tmp_path, monkeypatch):
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    value = load(None, ["algorithm.name=./own.py:Own", "algorithm.level=2", 'algorithm.pair=[3, "b"]'])
    assert (value.algorithm.level, value.algorithm.pair) == (2, (3, "b"))
    assert load_text(dump(value), "x") == value
