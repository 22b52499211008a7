"""Equal digests mean equal content, in this process and in others."""

import functools
import linecache
import os
import subprocess
import sys

import numpy as np
import pytest
from torch import nn

from fedswe.core.in_memory import digest

WIDTH = 3


def closure(width):
    return lambda: nn.Linear(width, 2)


def with_default(width):
    def make(size=width):
        return nn.Linear(size, 2)

    return make


def with_global(width):
    def make():
        return nn.Linear(WIDTH, 2)

    return type(make)(make.__code__, {**globals(), "WIDTH": width})


def class_with(number):
    class Net(nn.Module):
        def forward(self, x):
            return x * number

    return Net


class Holder:
    def __init__(self, width):
        self.width = width

    def make(self):
        return nn.Linear(self.width, 2)


class Scaled(nn.Linear):
    def __init__(self, factor, hidden=1):
        super().__init__(2, 2)
        self.factor, self._hidden = factor, hidden
        for p in self.parameters():
            nn.init.ones_(p)


def typed(code):
    """A function without a text."""
    return eval(compile(code, "<typed>", "eval"), {"__name__": "__main__"})


def cell(name, code):
    """A function in a cell of a notebook, whose text Python keeps."""
    linecache.cache[name] = (len(code), None, [code], name)
    return eval(compile(code, name, "eval"), {"__name__": "__main__"})


DIFFERENT = {
    "closures": (closure(2), closure(3)),
    "defaults": (with_default(2), with_default(3)),
    "globals": (with_global(2), with_global(3)),
    "classes": (class_with(2), class_with(3)),
    "bound methods": (Holder(2).make, Holder(3).make),
    "partial functions": (functools.partial(closure, 2), functools.partial(closure, 3)),
    "attributes of modules": (Scaled(1), Scaled(2)),
    "private attributes of modules": (Scaled(1), Scaled(1, hidden=2)),
    "functions of a notebook": (cell("<cell 1>", "lambda: 2"), cell("<cell 2>", "lambda: 3")),
    "frozen parameters": (Scaled(1), Scaled(1).requires_grad_(False)),
    "number formats": (Scaled(1), Scaled(1).bfloat16()),
    "parameters of losses": (nn.HuberLoss(delta=1.0), nn.HuberLoss(delta=2.0)),
    "arrays": (np.zeros(3), np.zeros((1, 3))),
    "nested": ({"a": [1, (2, 3)]}, {"a": [1, (2, 4)]}),
    "sets": ({"a", "b"}, {"a", "c"}),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_different_contents_have_different_digests(name):
    first, second = DIFFERENT[name]
    assert digest(first) != digest(second)
    assert digest(first) == digest(first)


def test_the_place_of_a_part_counts():
    assert digest([np.zeros(2), None]) != digest([None, np.zeros(2)])


def test_what_cannot_be_described_is_never_equal():
    assert digest(i for i in "ab") != digest(i for i in "ab")
    function = typed("lambda: 2")
    assert digest(function) != digest(function)


SCRIPT = """
import functools
from abc import ABC
from torch import nn
from fedswe.core.in_memory import digest

class Net(nn.Module, ABC):
    kinds = {"relu", "tanh", "gelu", "elu"}
    @property
    def wide(self): return 3
    @functools.cached_property
    def deep(self): return 4
    @staticmethod
    def name(n): return n in {"relu", "tanh", "gelu", "elu"}
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 2)
        nn.init.ones_(self.a.weight), nn.init.ones_(self.a.bias)
    def forward(self, x): return self.a(x) if self.name("relu") else x

print(digest([Net, Net(), functools.partial(Net), lambda: Net(), nn.HuberLoss(delta=2.0)]))
"""


def test_another_process_finds_the_same_digest(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    found = {
        subprocess.run(
            [sys.executable, "script.py"], cwd=tmp_path, env={**os.environ, "PYTHONHASHSEED": seed}, text=True,
            capture_output=True, check=True,
        ).stdout
        for seed in "12"
    }  # fmt: skip
    assert len(found) == 1
