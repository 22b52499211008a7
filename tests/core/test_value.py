"""Fields of values: what fits, what is made of it, and the line for what does not fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import fedswe
from fedswe.algorithms import FedSWE
from fedswe.availability import Mask
from fedswe.core.transforms import Clip
from fedswe.core.value import Count, Decay, Natural, NonNegative, Positive, Probability, Share, Value
from fedswe.errors import FedsweError

NAN = float("nan")


@dataclass(frozen=True)
class Typed(Value):
    level: Literal[1, 2] = 1
    pairs: list[tuple[int, float]] = field(default_factory=list)
    several: tuple[int, ...] = ()
    number: float | list[float] = 1.0
    text: str = ""
    switch: bool = False
    count: Count = 1
    natural: Natural = 0
    positive: Positive = 1.0
    nonnegative: NonNegative = 0.0
    probability: Probability = 0.5
    share: Share = 0.5
    decay: Decay = 0.5
    anything: Any = None


@pytest.mark.parametrize(
    ("key", "given", "held"),
    [
        ("level", np.int64(2), 2),
        ("several", np.arange(3), (0, 1, 2)),
        ("number", np.eye(2)[0], [1.0, 0.0]),
        ("number", [np.float32(1), 2], [1.0, 2.0]),
        ("number", 3, 3.0),
        ("text", Path("a/b"), "a/b"),
        ("switch", np.bool_(True), True),
        ("count", 1e3, 1000),
        ("share", 1, 1.0),
        ("anything", (1, "a"), (1, "a")),
    ],
)
def test_values_that_fit(key, given, held):
    value = getattr(Typed(**{key: given}), key)
    assert value == held
    assert type(value) is type(held)


@pytest.mark.parametrize(
    ("key", "given"),
    [
        *[("level", given) for given in (3, "1")],
        *[("pairs", given) for given in ([(1, 0.5, 2)], "ab")],
        *[("several", given) for given in ((1, "a"), 1)],
        *[("number", given) for given in ("1", True, None, [1, "a"], [[1.0]])],
        *[("count", given) for given in (0, 1.5, "3", True, NAN, int)],
        *[("positive", given) for given in (0, -1, NAN, float("inf"), "1")],
        *[(name, given) for name in ("probability", "share", "decay") for given in (-0.1, 1.1, NAN)],
        *[("natural", -1), ("nonnegative", NAN), ("share", 0), ("decay", 1)],
    ],
)
def test_values_that_do_not_fit(key, given):
    with pytest.raises(FedsweError, match=rf"^{key} must be .*, not ") as caught:
        Typed(**{key: given})
    assert "\n" not in str(caught.value)


def test_the_types_of_users_are_checked_before_their_own_checks():
    seen = []

    @dataclass(frozen=True)
    class Mine(FedSWE):
        period: int = 1

        def __post_init__(self) -> None:
            super().__post_init__()
            seen.append(self.period)

    Mine(period=3)
    for wrong in ({"period": "3"}, {"k": "3"}, {"k": -1}):
        with pytest.raises(FedsweError, match=f"{next(iter(wrong))} must be"):
            Mine(**wrong)
    assert seen == [3]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: FedSWE(chain=(Clip,)), r"write Clip\(\)"),
        (lambda: fedswe.Experiment(algorithm=FedSWE), r"algorithm .* write FedSWE\(\)"),
        (lambda: fedswe.Experiment(task=5), "task must be an instance of Task"),
        (lambda: fedswe.Experiment(algorithm="fedsve"), "^unknown algorithm 'fedsve': did you mean fedswe?"),
        (lambda: fedswe.Experiment(algorithm="fedavg:k=3"), "^unknown key algorithm.k of fedavg"),
        (lambda: fedswe.Experiment(rounds=0), "rounds must be"),
        (lambda: Mask(np.eye(3)), r"for an array, use Mask\.from_array"),
        (lambda: fedswe.run(None), "run: experiment must be an instance of Experiment"),
        (lambda: fedswe.run(fedswe.Experiment(rounds=1), out=5), "run: out must be"),
        (lambda: fedswe.load(5), "load: directory must be"),
        (lambda: fedswe.resume(None), "resume: out must be"),
        (lambda: fedswe.compare(fedswe.Experiment(), seeds=3), "compare: seeds must be"),
        (lambda: fedswe.compare(fedswe.Experiment(), tune=["a"]), "compare: tune must be"),
        (lambda: fedswe.compare({"a": 5}), "compare: base must be an instance of Experiment"),
    ],
)
def test_mistakes_in_a_script(call, says):
    with pytest.raises(FedsweError, match=says) as caught:
        call()
    assert "\n" not in str(caught.value)
