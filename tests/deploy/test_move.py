"""The distance between two records, over any number of coordinates; and what is not finite."""

import math

import pytest
import torch

from fedswe.core.records import Model
from fedswe.deploy.move import _CHUNK, distance, is_finite


@pytest.mark.parametrize("d", [1, 7, _CHUNK - 1, _CHUNK, _CHUNK + 1, 2 * _CHUNK + 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_distance_is_that_of_all_coordinates(d, dtype):
    a, b = (torch.randn(d, generator=torch.Generator().manual_seed(seed), dtype=dtype) for seed in (1, 2))
    exact = float((a.double() - b.double()).norm())
    assert distance(Model(a), Model(b)) == pytest.approx(exact, rel=1e-5 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 3e38])
@pytest.mark.parametrize("where", [0, _CHUNK, -1])
def test_what_is_not_finite_or_overflows_shows_in_the_distance(value, where):
    a, b = torch.zeros(_CHUNK + 9), torch.zeros(_CHUNK + 9)
    a[where] = value
    assert not math.isfinite(distance(Model(a), Model(b)))
    assert is_finite({"a": a}) == math.isfinite(value)
    b[where] = value  # infinity minus infinity
    assert (distance(Model(a), Model(b)) == 0) == math.isfinite(value)


def test_finite_numbers_whose_sum_overflows_are_finite():
    assert is_finite({"a": torch.full((5,), 3e38)})
    assert not is_finite({"a": torch.tensor([3e38, 3e38, math.nan])})
    assert not is_finite({"a": torch.tensor([math.inf, -math.inf])})
    assert is_finite({})
