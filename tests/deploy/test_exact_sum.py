"""Sums of models that keep every digit."""

from fractions import Fraction

import torch
from hypothesis import given
from hypothesis import strategies as st

from fedswe.deploy.exact_sum import ExactSum

numbers = {
    torch.float32: st.floats(-1e6, 1e6, width=32).map(lambda v: v if abs(v) > 1e-6 else 0.0),
    torch.float64: st.floats(-1e3, 1e3).map(lambda v: v if abs(v) > 1e-3 else 0.0),
}


def terms(dtype):
    return st.lists(st.tuples(st.integers(-5000, 5000), numbers[dtype]), max_size=12)


def summed(dtype, pairs):
    total = ExactSum.zero(torch.zeros(1, dtype=dtype))
    for times, value in pairs:
        total = total.plus(times, torch.tensor([value], dtype=dtype))
    return total


@given(dtype=st.sampled_from([torch.float32, torch.float64]), data=st.data())
def test_equals_fractions(dtype, data):
    pairs = data.draw(terms(dtype))
    exact = sum((times * Fraction(value) for times, value in pairs), Fraction(0))
    total = summed(dtype, pairs)
    assert Fraction(total.high.item()) + Fraction(total.low.item()) == exact
    assert total.high.item() == float(exact)  # rounded once


@given(dtype=st.sampled_from([torch.float32, torch.float64]), data=st.data())
def test_what_was_added_and_taken_away_leaves_no_trace(dtype, data):
    kept, passing = data.draw(terms(dtype)), data.draw(terms(dtype))
    away = [(-times, value) for times, value in passing]
    found, wanted = summed(dtype, [*passing, *kept, *away]), summed(dtype, kept[::-1])
    assert torch.equal(found.over(7), wanted.over(7))


def test_a_plain_sum_would_not_do():
    pairs = [(1, 1e8), (1, 3.0000001), (-1, 1e8)]
    plain = sum((times * torch.tensor([value], dtype=torch.float64) for times, value in pairs), torch.zeros(1).double())
    assert plain.item() != 3.0000001
    assert summed(torch.float64, pairs).over(1).item() == 3.0000001
